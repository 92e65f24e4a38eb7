"""Commands `choirctl db status|migrate|backup|restore`; the last two for the embedded database only."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status

from choir_common.errors import Conflict, InvalidRequest
from choir_common.extras import installed_version
from choir_common.i18n import _
from choir_local.database import schemas
from choir_local.database.backup import create_backup
from choir_local.database.connection import open_database_in_use
from choir_local.database.restore import RestoreResult
from choir_local.database.restore import restore as put_back
from choir_local.home import Home as LocalHome
from choir_local.settings import LocalSettings
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import confirm, print_json, print_rows, stderr_console, table
from choirctl.start.background import is_running


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("status")(status)
    group.command("migrate")(migrate)
    group.command("backup")(backup)
    group.command("restore")(restore)
    app.add_typer(group, name="db", help="Migrate, back up and restore the embedded database.")


def status(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Show the migration state of each database schema."""
    states = asyncio.run(_schema_states(_settings(ctx, home)))
    if as_json:
        print_json({"schemas": [_plain(state) for state in states]})
        return
    rows = table(_("SCHEMA"), _("REVISION"), _("NEWEST"), _("MISSING"))
    for state in states:
        rows.add_row(state.schema, state.revision, state.newest, ", ".join(state.missing) or "-")
    print_rows(rows)


def migrate(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Migrate every schema to this version.

    Each schema is migrated completely or not at all.
    """
    applied = asyncio.run(_migrate(_settings(ctx, home)))
    if as_json:
        print_json({"applied": applied})
        return
    for schema, names in applied.items():
        stderr_console().print(f"{schema}: {', '.join(names) or _('up to date')}", markup=False)


def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
    with_secrets: Annotated[
        bool,
        typer.Option(
            "--with-secrets",
            help="Include secrets.json and audit-keys.json; whoever can read FILE can read them.",
        ),
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write the database and config.json into one file.

    Choir may run meanwhile or be stopped. Workspaces are not included: they are your own files.
    """
    with stderr_console().status(_("backing up…")) as line:
        work = create_backup(
            _settings(ctx, home),
            file.absolute(),
            installed_version(),
            with_secrets=with_secrets,
            show_progress=lambda words: _show(line, words),
        )
        manifest = asyncio.run(work)
    if as_json:
        print_json(manifest)
    else:
        size = file.stat().st_size / 1e6
        parts = ", ".join(manifest.parts)
        stderr_console().print(
            _("Wrote {file} ({size:.1f} MB): {parts}.").format(file=file, size=size, parts=parts),
            markup=False,
        )


def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", "--force", help="Replace existing data without asking.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Replace the database by a backup.

    The backup is first read, migrated and verified, so the replacement is complete or does not happen.
    Choir must not run. Asks before it replaces existing data; without a terminal it refuses.
    """
    settings = _settings(ctx, home)
    # without `force` it refuses to replace data, and its message says what would be replaced
    try:
        result = _restore(settings, file, force=yes)
    except Conflict as conflict:
        if yes or not sys.stdin.isatty() or is_running(LocalHome(settings.home)):
            raise
        stderr_console().print(conflict.message, markup=False)
        if not confirm(_("Replace it with the backup?")):
            raise InvalidRequest(_("Nothing was changed.")) from None
        result = _restore(settings, file, force=True)
    events = sum(chain.events for chain in result.chains)
    if as_json:
        paths = [str(path) for path in result.previous_files]
        print_json({"sessions": len(result.chains), "events": events, "kept": paths})
        return
    stderr_console().print(
        _("Restored {count} sessions with {events} events; all of them are verified.").format(
            count=len(result.chains), events=events
        )
    )
    for path in result.previous_files:
        stderr_console().print(
            _("The previous data are in {path}.").format(path=path), markup=False
        )


def _restore(settings: LocalSettings, file: Path, *, force: bool) -> RestoreResult:
    with stderr_console().status(_("restoring…")) as line:
        work = put_back(
            settings, file.absolute(), force=force, show_progress=lambda words: _show(line, words)
        )
        return asyncio.run(work)


async def _schema_states(settings: LocalSettings) -> list[schemas.SchemaStatus]:
    async with open_database_in_use(settings) as access, access.database() as database:
        return await schemas.schema_statuses(database)


async def _migrate(settings: LocalSettings) -> dict[str, list[str]]:
    async with open_database_in_use(settings) as access, access.database() as database:
        return await schemas.migrate_all(database)


def _settings(ctx: typer.Context, home: Path | None) -> LocalSettings:
    return LocalSettings.load().model_copy(update={"home": find_target(ctx, home).home})


def _plain(state: schemas.SchemaStatus) -> dict[str, object]:
    return {
        "schema": state.schema,
        "revision": state.revision,
        "newest": state.newest,
        "missing": list(state.missing),
    }


def _show(line: Status, words: str) -> None:
    line.update(f"{words}…")
