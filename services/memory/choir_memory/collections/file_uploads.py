"""Read the text of uploaded files: the same formats, limits and child process as for followed folders.

A file arrives in parts, because the bus limits the size of a message. It is stored in an unnamed temporary
file until its text has been read, and never longer.
"""

import asyncio
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import IO

from choir_common.errors import Conflict, InvalidRequest, TooLarge, Unavailable
from choir_common.i18n import _
from choir_common.wire.memory_collections import INTERRUPTED, MAX_FILE_TEXT, FilePart, FileText
from choir_files.errors import UnreadableFile
from choir_files.formats import FileFormat, detect_format, has_headings
from choir_files.reader import FileReader
from choir_files.sandbox import ReadLimits
from choir_memory.collections.folder_walk import MB, WEB_SUFFIXES
from choir_memory.collections.secret_files import is_secret_name, mask_private_keys

MAX_UPLOADS = 2
"""Files at a time: each uses the disk, and its reading uses memory and a processor."""
IDLE_S = 10.0
"""An upload without another part for so long is dropped when a new one needs its place."""
DROPPED = 100
"""Ids of dropped uploads that a replica remembers as its own."""
KINDS = (
    "Kinds that are read: text in UTF-8, Markdown, source code, HTML, PDF, Word, Excel, PowerPoint and "
    "OpenDocument."
)


@dataclass(slots=True)
class _UploadFile:
    """A file that is still arriving, or whose text is being read."""

    file: IO[bytes]
    size: int = 0
    is_complete: bool = False
    touched_at: float = field(default_factory=time.monotonic)


class DocumentFileReader:
    """Reader of the files that operators add to collections.

    The replica that got the first part of a file has all of it: `has` says so for the parts after.
    """

    def __init__(self, limits: ReadLimits, max_file_mb: int) -> None:
        self._limits = limits
        self._max_file_mb = max_file_mb
        self._uploads: dict[str, _UploadFile] = {}
        # their further parts are refused at once; no other replica would answer
        self._dropped: deque[str] = deque(maxlen=DROPPED)

    def has(self, part: FilePart) -> bool:
        """Return whether the parts before were sent to this process."""
        return part.upload_id in self._uploads or part.upload_id in self._dropped

    async def add_part(self, part: FilePart) -> FileText:
        """Store a part of a file, and return the file's text if it is the last one.

        Raises InvalidRequest for a file that cannot be read, TooLarge, Conflict for a part out of order, and
        Unavailable if too many files are being uploaded.
        """
        upload = self._find(part)
        try:
            upload.size += len(part.content)
            if upload.size > self._max_file_mb * MB:
                raise TooLarge(
                    _("{part} is larger than {max_file_mb} MB.").format(
                        part=part.name, max_file_mb=self._max_file_mb
                    )
                )
            await asyncio.to_thread(upload.file.write, part.content)
            upload.touched_at = time.monotonic()
            if not part.is_last:
                return FileText()
            upload.is_complete = True
            return await asyncio.to_thread(_read_text, upload.file, part.name, self._limits)
        except UnreadableFile as error:
            raise InvalidRequest(f"{part.name} {str(error).removesuffix('.')}.") from None
        finally:
            if upload.is_complete or upload.size > self._max_file_mb * MB:
                self._drop(part.upload_id)

    def close(self) -> None:
        """Drop the files that are still arriving."""
        for upload_id in list(self._uploads):
            self._drop(upload_id)

    def _find(self, part: FilePart) -> _UploadFile:
        if part.offset == 0 and part.upload_id not in self._uploads:
            _refuse_secret(part.name)
            self._make_room()
            # closed by `_drop`
            file = tempfile.TemporaryFile()  # noqa: SIM115
            self._uploads[part.upload_id] = _UploadFile(file)
        upload = self._uploads.get(part.upload_id)
        if upload is None or upload.is_complete or upload.size != part.offset:
            raise Conflict(INTERRUPTED.format(name=part.name))
        return upload

    def _make_room(self) -> None:
        now = time.monotonic()
        for upload_id, upload in list(self._uploads.items()):
            if not upload.is_complete and now - upload.touched_at > IDLE_S:
                self._drop(upload_id)
        if len(self._uploads) >= MAX_UPLOADS:
            raise Unavailable(
                _(
                    "{max_uploads} files are being read already. Upload this one again in a few seconds."
                ).format(max_uploads=MAX_UPLOADS),
                retry_after_s=5.0,
            )

    def _drop(self, upload_id: str) -> None:
        upload = self._uploads.pop(upload_id, None)
        if upload is not None:
            upload.file.close()
            self._dropped.append(upload_id)


def _refuse_secret(name: str) -> None:
    if is_secret_name(PurePath(name).name):
        raise InvalidRequest(
            _("{name} has the name of a file with keys, so it is not read.").format(name=name)
        )


def _read_text(file: IO[bytes], name: str, limits: ReadLimits) -> FileText:
    """Return a file's text; raises UnreadableFile, and Unavailable if no file can be read now. Blocking."""
    file.flush()
    file_format = detect_format(name)
    # of its own, so that a file that takes long delays neither folders nor another upload
    reader = FileReader(limits)
    try:
        text = mask_private_keys(reader.read(file.fileno(), file_format or "text"))
    except UnreadableFile as error:
        raise UnreadableFile(_explain(error, file_format)) from None
    finally:
        reader.close()
    if len(text) > MAX_FILE_TEXT:
        raise UnreadableFile(
            f"has {len(text):,} characters of text; an uploaded file may have {MAX_FILE_TEXT:,}. Divide it, "
            "or put it into a folder that a collection follows"
        )
    return FileText(
        text=text,
        headings=file_format is None or has_headings(file_format),
        is_from_web=PurePath(name).suffix.lower() in WEB_SUFFIXES,
    )


def _explain(error: UnreadableFile, file_format: FileFormat | None) -> str:
    # an unknown suffix: it may have been text
    return str(error) if file_format else f"is not of a kind that is read. {KINDS}"
