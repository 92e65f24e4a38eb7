"""File transfer between this machine and a DM: upload a file for a message, save the files of a message.

Used by `chat` and `terminal_chat`. The name of a received file is untrusted: it can only name a new file
directly in
the folder of received files, and never overwrites an existing one.
"""

import asyncio
import os
import unicodedata
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from choir_common.errors import ChoirError
from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choirctl.api.control import ControlClient

MAX_NAME = 100
MAX_DUPLICATES = 1000


async def upload_file(api: ControlClient, dm: str, path: Path) -> Attachment:
    """Upload a file to a DM's channel; raises the errors of `AsyncConversation.upload`."""
    return await api.conversation(dm).upload(path)


async def save_files(
    api: ControlClient, dm: str, message: OutboundMessage, folder: Path
) -> list[str]:
    """Save a message's files; return a line for each: its path, or why it was not saved."""
    return [await _save(api, dm, message, attachment, folder) for attachment in message.attachments]


async def _save(
    api: ControlClient, dm: str, message: OutboundMessage, attachment: Attachment, folder: Path
) -> str:
    pieces = api.conversation(dm).download(message, attachment.ref)
    try:
        saved_path = await _write(folder, attachment.name, pieces)
    except (ChoirError, OSError) as error:
        return _("{escape_hidden} could not be saved: {error}").format(
            escape_hidden=escape_hidden(attachment.name), error=error
        )
    return _("{kind} saved as {saved_path}").format(kind=attachment.kind, saved_path=saved_path)


async def _write(folder: Path, name: str, pieces: AsyncIterator[bytes]) -> Path:
    """Write a file under a free name in the folder and return its path; remove it if the transfer fails."""
    await asyncio.to_thread(folder.mkdir, 0o700, parents=True, exist_ok=True)
    for free in _names(name):
        try:
            # O_EXCL: fails for an existing file, and does not follow a symbolic link
            descriptor = os.open(folder / free, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as file:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
        except BaseException:  # also when the chat is cancelled
            (folder / free).unlink(missing_ok=True)
            raise
        return folder / free
    raise FileExistsError(_("{folder} has too many files of that name").format(folder=folder))


def _names(name: str) -> Iterator[str]:
    """Yield the sanitized file name, then the same name with numbers."""
    plain = "".join(
        "_" if c in '/\\:*?"<>|' or unicodedata.category(c)[0] == "C" else c for c in name
    ).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if not stem:
        stem, dot, ending = plain or "file", "", ""
    stem, ending = stem[:MAX_NAME], ending[:20]
    yield f"{stem}{dot}{ending}"
    for number in range(2, MAX_DUPLICATES):
        yield f"{stem} ({number}){dot}{ending}"
