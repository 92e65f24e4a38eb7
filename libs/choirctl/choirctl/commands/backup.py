"""Commands `choirctl backup create|list|verify|restore|prune`, for the whole state directory."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status

from choir_common.errors import InvalidRequest, NotFound
from choir_common.extras import installed_version
from choir_common.i18n import _
from choir_local.backup.age import is_encrypted
from choir_local.backup.create import BackupRequest, create_home_backup
from choir_local.backup.manifest import BackupHead, BackupManifest
from choir_local.backup.passphrase import backup_config, backup_directory
from choir_local.backup.restore import HomeRestoration, check_target, restore_home, verify_backup
from choir_local.backup.scheduled import make_scheduled_backup
from choir_local.backup.sources import BackupScope
from choir_local.backup.storage import backup_name, list_backups, prune_backups
from choir_local.home import Home as LocalHome
from choir_local.settings import LocalSettings
from choirctl.api.target import AsJson, Home, find_target
from choirctl.app import add_group
from choirctl.output.printing import format_age, print_json, print_rows, stderr_console, table
from choirctl.start.backup_passphrase import require_passphrase

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        help="File with the passphrase; else CHOIR_BACKUP_PASSPHRASE_FILE, else the secret "
        "backup-passphrase, else a prompt.",
    ),
]

Scheduled = Annotated[
    bool,
    typer.Option(
        "--scheduled",
        help="Back up by the section `backup` of config.json, and delete what `backup.keep` does not keep; "
        "for cron.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "backup",
        ("create", create),
        ("list", list_files),
        ("verify", verify),
        ("restore", restore),
        ("prune", prune),
    )


def create(
    ctx: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File or directory; default: `backup.path`, else ~/.choir.d/backups."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    without_secrets: Annotated[
        bool,
        typer.Option(
            "--without-secrets", help="No secrets, and no encryption without a passphrase file."
        ),
    ] = False,
    without_workspaces: Annotated[
        bool, typer.Option("--without-workspaces", help="Leave out the agents' files.")
    ] = False,
    scheduled: Scheduled = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Back up the whole state directory into one file.

    That is the database, configuration, secrets, identities and workspaces. Choir may run meanwhile. The file
    is encrypted with a passphrase, which you need to restore it: keep it elsewhere.
    """
    settings = _settings(ctx, home)
    if scheduled:
        if out or passphrase_file or without_secrets or without_workspaces:
            raise InvalidRequest(
                _("--scheduled takes everything from config.json: give no other option.")
            )
        _report(*_make_scheduled(settings), as_json=as_json)
        return
    local = LocalHome(settings.home)
    passphrase = None
    if not without_secrets or passphrase_file is not None:
        passphrase = require_passphrase(local, passphrase_file, new=True)
    target = _target(local, out, encrypted=passphrase is not None)
    scope = BackupScope(secrets=not without_secrets, workspaces=not without_workspaces)
    request = BackupRequest(target, installed_version(), passphrase, scope)
    with stderr_console().status(_("backing up…")) as line:
        work = create_home_backup(settings, request, lambda words: _show(line, words))
        manifest = asyncio.run(work)
    _report(request, manifest, as_json=as_json)


def _make_scheduled(settings: LocalSettings) -> tuple[BackupRequest, BackupManifest]:
    with stderr_console().status(_("backing up…")) as line:
        result = asyncio.run(make_scheduled_backup(settings, lambda words: _show(line, words)))
    if result is None:
        raise NotFound(
            _("{home} has no section `backup`.").format(home=settings.home / "config.json")
        )
    return result


def _report(request: BackupRequest, manifest: BackupManifest, *, as_json: bool) -> None:
    size = request.target.stat().st_size
    if as_json:
        print_json({"file": str(request.target), "size": size, **_summary(manifest)})
        return
    console = stderr_console()
    console.print(
        _("Wrote {target} ({size:,.1f} MB).").format(target=request.target, size=size / 1000000.0),
        markup=False,
    )
    for line_ in manifest.skipped:
        console.print(_("Left out: {line_}").format(line_=line_), markup=False)


def list_files(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """List the backups in the directory of backups, newest first."""
    backups = list_backups(backup_directory(LocalHome(find_target(ctx, home).home)))
    if as_json:
        rows_ = [
            {
                "file": str(it.path),
                "made_at": it.made_at.isoformat(),
                "reason": it.reason,
                "encrypted": it.encrypted,
                "size": it.size,
            }
            for it in backups
        ]
        print_json({"backups": rows_})
        return
    rows = table(_("MADE"), _("SIZE"), _("BY"), _("ENCRYPTED"), _("FILE"))
    for it in backups:
        size, encrypted = f"{it.size / 1e6:,.1f} MB", _("yes") if it.encrypted else _("no")
        rows.add_row(format_age(it.made_at), size, it.reason or _("you"), encrypted, str(it.path))
    print_rows(rows, _("There are no backups. `choirctl backup create` writes one."))


def verify(
    ctx: typer.Context,
    file: BackupFile,
    passphrase_file: PassphraseFile = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check that a backup is complete and unchanged."""
    passphrase = _passphrase_for(file, passphrase_file, find_target(ctx, home).home)
    with stderr_console().status(_("reading…")):
        head, manifest = verify_backup(file, passphrase)
    if as_json:
        print_json({"ok": True, **_head(head), **_summary(manifest)})
        return
    stderr_console().print(
        _(
            "{file} is complete: {count:,} files with {size:,.1f} MB, made {made_at:%Y-%m-%d "
            "%H:%M} UTC by Choir {choir}."
        ).format(
            file=file,
            count=len(manifest.files),
            size=manifest.size / 1000000.0,
            made_at=head.made_at,
            choir=head.choir,
        ),
        markup=False,
    )


def restore(
    ctx: typer.Context,
    file: BackupFile,
    passphrase_file: PassphraseFile = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace a state directory that has content; it is kept under another name.",
        ),
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Make a state directory from a backup, here or on another machine.

    Choir must not run there. Everything is read, migrated and verified beside the state directory first, so
    it is replaced completely or not at all.
    """
    settings = _settings(ctx, home)
    # before a passphrase is asked for; in a container it depends on the database
    if not settings.postgres_dsn:
        check_target(LocalHome(settings.home), replace=replace)
    passphrase = _passphrase_for(file, passphrase_file, settings.home)
    with stderr_console().status(_("restoring…")) as line:
        work = restore_home(
            settings,
            file.absolute(),
            passphrase,
            replace=replace,
            show_progress=lambda words: _show(line, words),
        )
        result = asyncio.run(work)
    _show_restoration(
        settings.home, result, in_container=bool(settings.postgres_dsn), as_json=as_json
    )


def prune(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Delete the scheduled backups that are no longer kept.

    `backup.keep` in config.json is the rule.
    """
    local = LocalHome(find_target(ctx, home).home)
    config = backup_config(local)
    if config is None:
        raise NotFound(
            _("{config_file} has no section `backup`: no backups are made or deleted.").format(
                config_file=local.config_file
            )
        )
    removed = prune_backups(backup_directory(local), config.keep)
    if as_json:
        print_json({"removed": [str(path) for path in removed]})
        return
    for path in removed:
        stderr_console().print(_("Deleted {path}.").format(path=path), markup=False)


def _settings(ctx: typer.Context, home: Path | None) -> LocalSettings:
    place = find_target(ctx, home).home.expanduser().absolute()
    return LocalSettings.load().model_copy(update={"home": place})


def _target(home: LocalHome, out: Path | None, *, encrypted: bool) -> Path:
    name = backup_name(datetime.now(UTC), encrypted=encrypted)
    if out is not None:
        return (out / name if out.is_dir() else out).absolute()
    directory = backup_directory(home)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory / name


def _passphrase_for(file: Path, passphrase_file: Path | None, home: Path) -> bytes | None:
    try:
        with file.open("rb") as opened:
            encrypted = is_encrypted(opened)
    except OSError as error:
        raise NotFound(
            _("{file} cannot be read: {strerror}.").format(file=file, strerror=error.strerror)
        ) from error
    return require_passphrase(LocalHome(home), passphrase_file, new=False) if encrypted else None


def _head(head: BackupHead) -> dict[str, object]:
    return head.model_dump(mode="json")


def _summary(manifest: BackupManifest) -> dict[str, object]:
    return {
        "files": len(manifest.files),
        "bytes": manifest.size,
        "secrets": manifest.secrets,
        "workspaces": manifest.workspaces,
        "schemas": manifest.schemas,
        "skipped": manifest.skipped,
    }


def _show(line: Status, words: str) -> None:
    line.update(f"{words}…")


def _show_restoration(
    home: Path, result: HomeRestoration, *, in_container: bool, as_json: bool
) -> None:
    events = sum(chain.events for chain in result.chains)
    if as_json:
        print_json(
            {
                "home": str(home),
                "sessions": len(result.chains),
                "events": events,
                "previous": str(result.previous) if result.previous else None,
                "server": result.server or None,
            }
        )
        return
    console = stderr_console()
    console.print(
        _(
            "Restored {home} with {count} sessions and {events} events; all of them are "
            "verified. `{value}` starts it."
        ).format(
            home=home,
            count=len(result.chains),
            events=events,
            value="docker compose up --wait" if in_container else "choirctl up",
        ),
        markup=False,
    )
    if not result.manifest.secrets and result.previous is None:
        console.print(_("The backup has no secrets: set them again with `choirctl secret set`."))
    if result.server:
        console.print(
            _(
                "The backup was made of the Postgres at {server}. Choir uses its own from now on: the "
                "section `postgres` is no longer in config.json."
            ).format(server=result.server),
            markup=False,
        )
    if result.previous:
        console.print(
            _("The previous state directory is {previous}.").format(previous=result.previous),
            markup=False,
        )
