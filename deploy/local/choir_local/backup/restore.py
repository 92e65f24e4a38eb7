"""Restore of a whole-home backup into a state directory (`choirctl backup restore`).

Everything happens in a directory beside the state directory: files, database, verification of all logs. Then
one rename puts it in place. A crash before that leaves the state directory as it was.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from choir_common.errors import Conflict, InvalidRequest, NotFound, StartupError
from choir_common.i18n import _
from choir_local.backup.age import AgeReader, CleartextSource, is_encrypted
from choir_local.backup.archive import BackupEntry, read_archive
from choir_local.backup.extraction import BackupFileWriter, outside_folder
from choir_local.backup.manifest import DUMP_PREFIX, BackupHead, BackupManifest
from choir_local.backup.restore_in_place import (
    COMPLETE,
    finish_restore,
    is_restore_unfinished,
    mark_complete,
    require_replaceable,
    staging_directory,
)
from choir_local.backup.sources import BACKUPS, SECRETS
from choir_local.database.backup import ShowProgress
from choir_local.database.connection import configured_server, open_database
from choir_local.database.restore import load_dump, replace_database
from choir_local.database.store import LogVerification
from choir_local.exchange import put_in_place
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choir_local.stack_state import is_locked, lock_home

SPACE_FACTOR = 2
"""Space needed, in sizes of the backup: its dump and the database made of it are there at the same time."""
KEPT_FOLDERS = ("workspaces", BACKUPS)


@dataclass(frozen=True, slots=True)
class HomeRestoration:
    """Result of a restore."""

    head: BackupHead
    manifest: BackupManifest
    chains: list[LogVerification]
    previous: Path | None
    """Where the state directory is that was there before."""
    server: str = ""
    """The Postgres that the backup was made of, if it was not Choir's own; config.json no longer names it."""


@contextlib.contextmanager
def open_backup(source: Path, passphrase: bytes | None) -> Iterator[CleartextSource]:
    """Provide the archive of a backup, decrypted if it is encrypted.

    Raises NotFound, and InvalidRequest without the right passphrase.
    """
    try:
        file: BinaryIO = source.open("rb")
    except OSError as error:
        raise NotFound(
            _("{source} cannot be read: {strerror}.").format(source=source, strerror=error.strerror)
        ) from error
    with file:
        if not is_encrypted(file):
            yield file
        elif passphrase is None:
            raise InvalidRequest(
                _("{source} is encrypted. Give --passphrase-file FILE.").format(source=source)
            )
        else:
            yield AgeReader(file, passphrase)


def verify_backup(source: Path, passphrase: bytes | None) -> tuple[BackupHead, BackupManifest]:
    """Read a backup to its end and compare every file with the manifest. Raises InvalidRequest."""
    with open_backup(source, passphrase) as archive:
        head, manifest = read_archive(archive, _read_only)
    if f"{DUMP_PREFIX}000000" not in manifest.files:
        raise InvalidRequest(_("{source} contains no database.").format(source=source))
    return head, manifest


def _read_only(_: BackupHead, entry: BackupEntry) -> None:
    for _block in entry.blocks:
        pass


async def restore_home(
    settings: LocalSettings,
    source: Path,
    passphrase: bytes | None,
    *,
    replace: bool,
    show_progress: ShowProgress,
) -> HomeRestoration:
    """Make the state directory `settings.home` from a backup; `replace` permits that there is one.

    Raises Conflict when Choir runs there or files would be replaced, InvalidRequest for a file that is not a
    whole backup, and StartupError when the database cannot be restored. Nothing is changed then.
    """
    home = Home(settings.home.expanduser().absolute())
    if settings.postgres_dsn:
        return await _restore_in_container(
            settings, source, passphrase, replace=replace, show_progress=show_progress
        )
    check_target(home, replace=replace)
    _check_space(source, home.root.parent)
    with _staging_directory(home.root.with_name(f".{home.root.name}.restoring")) as staging:
        show_progress(_("checking and extracting the backup"))
        dump, head, manifest = await asyncio.to_thread(_extract, source, passphrase, home, staging)
        server = _use_own_database(staging / "config.json")
        if not manifest.secrets:
            _copy_secrets(home.root, staging)
        staged = settings.model_copy(update={"home": staging})
        async with open_database(staged, stopped=True) as access:
            chains = await load_dump(access, dump, manifest.roles, show_progress)
            await replace_database(access)
        shutil.rmtree(staging / "run")
        show_progress(_("putting it in place"))
        await asyncio.to_thread(os.sync)
        previous = _put_in_place(home, staging, manifest)
    return HomeRestoration(head, manifest, chains, previous, server)


async def _restore_in_container(
    settings: LocalSettings,
    source: Path,
    passphrase: bytes | None,
    *,
    replace: bool,
    show_progress: ShowProgress,
) -> HomeRestoration:
    home = Home(settings.home.expanduser().absolute())
    used = configured_server(home)
    if used is not None:
        raise Conflict(
            _(
                "{config_file} names the Postgres at {host}. A restore goes into the database of the "
                "containers: stop Choir, remove the section `postgres` from the file, and restore again."
            ).format(config_file=home.config_file, host=used.host)
        )
    # it raises Conflict while a service uses the database
    async with open_database(settings, stopped=True) as access:
        if is_restore_unfinished(home):
            show_progress(_("completing an interrupted restore"))
            await finish_restore(access)
        await require_replaceable(access, replace=replace)
        _check_space(source, home.root)
        with _staging_directory(staging_directory(home)) as staging:
            show_progress(_("checking and extracting the backup"))
            dump, head, manifest = await asyncio.to_thread(
                _extract, source, passphrase, home, staging
            )
            server = _use_own_database(staging / "config.json")
            chains = await load_dump(access, dump, manifest.roles, show_progress)
            shutil.rmtree(staging / "run")
            show_progress(_("putting it in place"))
            await asyncio.to_thread(os.sync)
            mark_complete(home, manifest)
            previous = await finish_restore(access)
    return HomeRestoration(head, manifest, chains, previous, server)


def check_target(home: Home, *, replace: bool) -> None:
    """Raise Conflict if a backup must not be restored into this directory."""
    if home.lock_file.exists() and is_locked(home):
        raise Conflict(
            _("Choir runs in {root}. Stop it with `choirctl down` first.").format(root=home.root)
        )
    if home.root.exists() and any(home.root.iterdir()) and not replace:
        raise Conflict(
            _(
                "{root} is not empty. Restore into another state directory (--home), or give "
                "--replace: the present one is then kept under another name."
            ).format(root=home.root)
        )
    if os.path.ismount(home.root):
        raise Conflict(
            _("{root} is a mount point, which cannot be replaced. Give another --home.").format(
                root=home.root
            )
        )


def _check_space(source: Path, place: Path) -> None:
    if not source.is_file():
        raise NotFound(_("There is no file {source}.").format(source=source))
    place.mkdir(parents=True, exist_ok=True)
    needed, free = source.stat().st_size * SPACE_FACTOR, shutil.disk_usage(place).free
    if free < needed:
        raise StartupError(
            _("{place} has {free:,.0f} MB free; this restore needs {needed:,.0f} MB.").format(
                place=place, free=free / 1000000.0, needed=needed / 1000000.0
            )
        )


@contextlib.contextmanager
def _staging_directory(staging: Path) -> Iterator[Path]:
    """Provide an empty directory on the disk of the home; remove what is left of it afterwards."""
    staging.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(staging, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise Conflict(
                _("{staging} belongs to another user. Remove it.").format(staging=staging)
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                _("Another restore works in {staging}.").format(staging=staging)
            ) from None
        # what a killed restore left
        for path in staging.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        yield staging
    finally:
        os.close(descriptor)
        # once it is complete, only the next restore may finish it
        if not (staging / COMPLETE).exists():
            shutil.rmtree(staging, ignore_errors=True)


def _extract(
    source: Path, passphrase: bytes | None, home: Home, staging: Path
) -> tuple[Path, BackupHead, BackupManifest]:
    """Extract a backup for a home; return its dump, which is in `staging`, and its description."""
    # no file of a backup is below `run`
    dump = staging / "run" / "restore.dump"
    dump.parent.mkdir(mode=0o700)
    extraction = BackupFileWriter(staging, dump)
    with open_backup(source, passphrase) as archive:
        head, manifest = read_archive(archive, extraction.take)
    if not dump.exists():
        raise InvalidRequest(_("{source} contains no database.").format(source=source))
    extraction.create_links()
    _rewrite_paths(staging / "config.json", head, home.root, extraction.outside)
    return dump, head, manifest


def _rewrite_paths(config: Path, head: BackupHead, home: Path, outside: set[str]) -> None:
    """Change the paths in config.json that lead into the old state directory, or to restored workspaces."""
    if not config.is_file():
        return
    text = config.read_text()
    old, new = (json.dumps(str(path))[1:-1] for path in (head.home, home))
    text = text.replace(f'"{old}/', f'"{new}/').replace(f'"{old}"', f'"{new}"')
    if outside:
        values = json.loads(text)
        for name in outside & values.get("workspaces", {}).keys():
            values["workspaces"][name]["path"] = str(home / outside_folder(head) / name)
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    config.write_text(text)


def _use_own_database(config: Path) -> str:
    """Remove the section `postgres`: the database is restored into Choir's own. Return the host it named."""
    values = json.loads(config.read_text()) if config.is_file() else {}
    section = values.pop("postgres", None)
    if section is None:
        return ""
    config.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return str(section["host"])


def _copy_secrets(home: Path, staging: Path) -> None:
    """Keep the secrets of the home that is replaced, because the backup has none."""
    for name in SECRETS:
        if (home / name).is_dir():
            shutil.copytree(home / name, staging / name, symlinks=True)
        elif (home / name).is_file():
            shutil.copy2(home / name, staging / name)


def _put_in_place(home: Home, staging: Path, manifest: BackupManifest) -> Path | None:
    occupied = home.root.exists() and any(home.root.iterdir())
    now = datetime.now(UTC)
    aside = home.root.with_name(f"{home.root.name}.before-restore-{now:%Y%m%dT%H%M%SZ}")
    if not occupied:
        put_in_place(staging, home.root, aside)
        return None
    home.run.mkdir(mode=0o700, exist_ok=True)
    with lock_home(home):
        put_in_place(staging, home.root, aside)
    for name in KEPT_FOLDERS:
        stays = name == BACKUPS or not manifest.workspaces
        if stays and (aside / name).is_dir() and not (home.root / name).exists():
            (aside / name).replace(home.root / name)
    return aside
