"""Files of the console on disk: uploads until control fetches them, agents' files until users do.

Called by `channel`. A file belongs to its DM: `in/<dm>/<token>`, with its description in a second file,
and `out/<dm>/<outbox id>/<ref>`. Old files are deleted when new ones arrive. A full spool rejects
uploads, and drops the oldest files of agents. Channels' own files about a DM are in `channels/<dm>/`.
"""

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from choir_common.errors import NotFound, TooLarge, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment

CHUNK_BYTES = 64 * 1024
TOKEN_BYTES = 16
DESCRIPTION_SUFFIX = ".json"
PARTIAL_SUFFIX = ".part"
OWN_FILES = "channels"


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """The limits of the spool."""

    file_bytes: int
    all_bytes: int
    max_age: timedelta


class FileSpool:
    """Store of the console's files below one directory, readable by the gateway's user alone."""

    def __init__(self, root: Path, caps: SpoolLimits) -> None:
        self._root = root
        self.limits = caps

    async def store_upload(
        self, dm: str, metadata: Attachment, pieces: AsyncIterator[bytes], *, share: float = 1.0
    ) -> Attachment:
        """Store an upload; return its description with size and ref.

        `share` is the part of the spool that may be full afterwards. Raises TooLarge above the limit of a
        file, Unavailable if the spool is full.
        """
        await asyncio.to_thread(self._prune, 0)
        token = secrets.token_hex(TOKEN_BYTES)
        path = self._root / "in" / dm / token
        size = await self._write(path, pieces)
        # Checked after the upload, because its size is unknown before.
        if await asyncio.to_thread(self._total_bytes) > self.limits.all_bytes * share:
            await asyncio.to_thread(path.unlink)
            raise Unavailable(_("The gateway's file storage is full; try again later."))
        attachment = metadata.model_copy(update={"size": size, "ref": f"{dm}/{token}"})
        description = attachment.model_dump_json().encode()
        await self._write(path.with_name(token + DESCRIPTION_SUFFIX), _at_once(description))
        return attachment

    async def read_description(self, dm: str, ref: str) -> Attachment:
        """Return an upload's description; raises NotFound if it belongs to another DM or was deleted."""
        path = self._taken(ref)
        description = path.with_name(path.name + DESCRIPTION_SUFFIX)
        try:
            if path.parent.name != dm:
                raise FileNotFoundError
            return Attachment.model_validate_json(await asyncio.to_thread(description.read_text))
        except OSError as error:
            raise NotFound(
                _("There is no file {ref!r} in this conversation.").format(ref=ref[:80])
            ) from error

    async def open_upload(self, ref: str) -> AsyncIterator[bytes]:
        """Return the bytes of an upload; raises NotFound if it was deleted."""
        return await _opened(self._taken(ref))

    async def remove_upload(self, ref: str) -> None:
        """Delete an upload that nobody will fetch."""
        path = self._taken(ref)
        await asyncio.to_thread(path.unlink, missing_ok=True)
        description = path.with_name(path.name + DESCRIPTION_SUFFIX)
        await asyncio.to_thread(description.unlink, missing_ok=True)

    async def store_outgoing(
        self, dm: str, outbox_id: int, ref: str, pieces: AsyncIterator[bytes]
    ) -> None:
        """Store a file of an agent; does nothing if it is there already. Raises TooLarge."""
        path = self._brought(dm, outbox_id, ref)
        if await asyncio.to_thread(path.exists):
            return
        size = await self._write(path, pieces)
        await asyncio.to_thread(self._prune, size)

    async def open_outgoing(self, dm: str, outbox_id: int, ref: str) -> AsyncIterator[bytes]:
        """Return the bytes of an agent's file; raises NotFound if it is not here."""
        return await _opened(self._brought(dm, outbox_id, ref))

    def own_file_path(self, dm: str, name: str) -> Path:
        """Return the path of a channel's own file about a DM.

        It has no age limit, is not counted, and is erased with the other files of the DM. The channel creates
        the directory. Raises NotFound for a name of a DM that is no file name.
        """
        if not (_plain(dm) and _plain(name)):
            raise NotFound(_("There is no such file."))
        return self._root / OWN_FILES / dm / name

    async def erase_dm(self, dm: str) -> int:
        """Delete all files of a DM; return how many there were."""
        return await asyncio.to_thread(self._erase_dm, dm) if _plain(dm) else 0

    def _erase_dm(self, dm: str) -> int:
        count = 0
        for way in ("in", "out", OWN_FILES):
            folder = self._root / way / dm
            count += sum(len(names) for _, _, names in os.walk(folder))
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise Unavailable(
                    _("Some files of {dm} could not be deleted. Ask again.").format(dm=dm)
                )
        return count

    def _taken(self, ref: str) -> Path:
        dm, _separator, token = ref.partition("/")
        if not (_plain(dm) and token.isalnum() and token.isascii()):
            raise NotFound(_("There is no such file."))
        return self._root / "in" / dm / token

    def _brought(self, dm: str, outbox_id: int, ref: str) -> Path:
        if not (_plain(dm) and ref.isalnum() and ref.isascii() and len(ref) <= TOKEN_BYTES):
            raise NotFound(_("There is no such file."))
        return self._root / "out" / dm / str(outbox_id) / ref

    async def _write(self, path: Path, pieces: AsyncIterator[bytes]) -> int:
        """Write a temporary file and rename it, so that readers see a complete file; return its size."""
        await asyncio.to_thread(path.parent.mkdir, 0o700, True, True)
        # A repeated delivery may write the same file at the same time.
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL_SUFFIX}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        size = 0
        try:
            with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
                async for piece in pieces:
                    size += len(piece)
                    if size > self.limits.file_bytes:
                        most = self.limits.file_bytes // 1_000_000
                        raise TooLarge(_("The file is larger than {most} MB.").format(most=most))
                    await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(part.replace, path)
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)
        return size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the modification time, the size and the path of each file."""
        for folder, subfolders, names in os.walk(self._root):
            if Path(folder) == self._root and OWN_FILES in subfolders:
                subfolders.remove(OWN_FILES)
            for name in names:
                path = Path(folder) / name
                try:
                    stat = path.stat()
                except FileNotFoundError:
                    continue
                yield stat.st_mtime, stat.st_size, path

    def _total_bytes(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _prune(self, new_bytes: int) -> None:
        """Delete expired files.

        After a file of an agent was added (`new_bytes` bytes), also delete the oldest files of agents
        while the spool is too full.
        """
        oldest = time.time() - self.limits.max_age.total_seconds()
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        sent = self._root / "out"
        for modified_at, size, path in files:
            too_much = new_bytes and total > self.limits.all_bytes and path.is_relative_to(sent)
            if modified_at < oldest or too_much:
                path.unlink(missing_ok=True)
                total -= size


async def _at_once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _plain(dm: str) -> bool:
    return bool(dm) and "/" not in dm and "\0" not in dm and dm not in (".", "..")


async def _opened(path: Path) -> AsyncIterator[bytes]:
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except OSError as error:
        raise NotFound(_("There is no such file here any more.")) from error

    async def pieces() -> AsyncIterator[bytes]:
        with file:
            while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
                yield piece

    return pieces()
