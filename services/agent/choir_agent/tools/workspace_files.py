"""Texts and pictures of workspace files, read in a confined child process.

The child starts with the first file and ends when none was read for a while. Reduced pictures are cached,
because every prompt of a conversation sends them again.
"""

import asyncio
import base64
import os
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from choir_agent.tools.file_lines import scan_file
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.errors import Unavailable
from choir_common.wire.attachments import PictureRef
from choir_files.errors import UnreadableFile
from choir_files.formats import FileFormat
from choir_files.reader import FileReader
from choir_files.sandbox import ReadLimits

LIMITS = ReadLimits(memory_mb=768, cpu_s=20)
MAX_FILE_BYTES = 50_000_000
CACHE_BYTES = 24_000_000
IDLE_S = 30.0
CANCEL_S = 5.0
"""Time for a thread to notice that its child was ended; it takes milliseconds."""

Read = TypeVar("Read")


class WorkspaceFiles:
    """Reader of texts and pictures in the workspace, one file at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._reader = FileReader(LIMITS)
        self._lock = asyncio.Lock()
        self._cache: OrderedDict[PictureRef, bytes] = OrderedDict()
        self._idle_timer: asyncio.TimerHandle | None = None

    async def read_text(self, path: str, file_format: FileFormat) -> str:
        """Return the text of a file.

        Raises UnreadableFile, ToolFailed if the file cannot be opened, and Unavailable.
        """
        async with self._lock:
            try:
                return await self._run(partial(self._read_text, path, file_format))
            finally:
                self._restart_timer()

    async def count_pages(self, path: str, max_bytes: int) -> int:
        """Return the number of pages of a PDF; 0 for one with more bytes.

        Raises UnreadableFile, ToolFailed if the file cannot be opened, and Unavailable.
        """
        async with self._lock:
            try:
                return await asyncio.to_thread(self._count_pages, path, max_bytes)
            finally:
                self._restart_timer()

    async def load_pdf(self, path: str) -> str | bytes:
        """Return a PDF as a data URI (bytes), or a remark why it is not shown (text)."""
        try:
            content = await asyncio.to_thread(self._read_bytes, path)
        except UnreadableFile as error:
            return f"[Choir] The PDF {path} is not shown: it {error}."
        except (ToolFailed, OSError) as error:
            return f"[Choir] The PDF {path} is not shown: {error}"
        return b"data:application/pdf;base64," + base64.b64encode(content)

    async def load_picture(self, picture: PictureRef) -> str | bytes:
        """Return a picture as a data URI (bytes), or a remark why it is not shown (text)."""
        async with self._lock:
            cached = self._cache.get(picture)
            if cached is not None:
                self._cache.move_to_end(picture)
                return cached
            try:
                uri = await self._run(partial(self._read_picture, picture))
            except UnreadableFile as error:
                return f"[Choir] The picture {picture.path} is not shown: it {error}."
            except (ToolFailed, Unavailable) as error:
                return f"[Choir] The picture {picture.path} is not shown: {error.message}"
            finally:
                self._restart_timer()
            self._remember(picture, uri)
            return uri

    async def close(self) -> None:
        """End the child process."""
        async with self._lock:
            self._cancel_timer()
            await asyncio.to_thread(self._reader.close)

    async def _run(self, read: Callable[[], Read]) -> Read:
        """Read in a thread; if cancelled, end the child, so that no later file shares it with this one."""
        thread = asyncio.ensure_future(asyncio.to_thread(read))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            self._reader.close()
            await asyncio.wait({thread}, timeout=CANCEL_S)
            thread.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    def _read_text(self, path: str, file_format: FileFormat) -> str:
        with os.fdopen(self._open(path), "rb") as file:
            return self._reader.read(file.fileno(), file_format)

    def _count_pages(self, path: str, max_bytes: int) -> int:
        with os.fdopen(self._open(path), "rb") as file:
            if os.fstat(file.fileno()).st_size > max_bytes:
                return 0
            return self._reader.count_pages(file.fileno())

    def _read_bytes(self, path: str) -> bytes:
        with os.fdopen(self._open(path), "rb") as file:
            return file.read(MAX_FILE_BYTES)

    def _read_picture(self, picture: PictureRef) -> bytes:
        with os.fdopen(self._open(picture.path), "rb") as file:
            if picture.hash and scan_file(file).hash != picture.hash:
                raise UnreadableFile("has changed since")
            reduced = self._reader.reduce_picture(file.fileno())
        return f"data:{reduced.mime};base64,".encode() + base64.b64encode(reduced.content)

    def _open(self, path: str) -> int:
        descriptor = self._workspace.open_file(self._workspace.canonical(path))
        if os.fstat(descriptor).st_size > MAX_FILE_BYTES:
            os.close(descriptor)
            raise UnreadableFile(f"has more than {MAX_FILE_BYTES // 1_000_000} MB")
        return descriptor

    def _remember(self, picture: PictureRef, uri: bytes) -> None:
        self._cache[picture] = uri
        while sum(map(len, self._cache.values())) > CACHE_BYTES and len(self._cache) > 1:
            self._cache.popitem(last=False)

    def _restart_timer(self) -> None:
        self._cancel_timer()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._close_idle)

    def _close_idle(self) -> None:
        # Not while a file is read: the timer starts again afterwards.
        if not self._lock.locked():
            self._reader.close()

    def _cancel_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
