"""Files in messages: the body of a call with an agent's file, and the download of a user's file.

The REST API takes files as base64 in JSON. The body is a stream, because a file may be too much for memory.
"""

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO, Any

import httpx2

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import NotFound
from choir_common.i18n import _
from choir_common.wire.attachments import ANY_MIME, Attachment
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError, fetch_file, stream_file

MAX_MB = 95
"""Signal limits a file to 100 MB, after padding by up to 5 %."""
PIECE_BYTES = 3 * 64 * 1024
"""A multiple of three, so that the pieces of base64 fit together."""
ATTACHMENT_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}")
MIME = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")
# The REST API cuts the header of a file at these, and makes a path of the name.
UNSAFE = re.compile(r'[\x00-\x1f\x7f;,/\\"]')
MAX_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class SignalUpload:
    """A file for a call."""

    name: str
    mime: str
    content: IO[bytes]
    size: int


@contextlib.asynccontextmanager
async def download_file(
    client: httpx2.AsyncClient, ref: str
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of a file that a user sent. Raises NotFound, Unavailable."""
    if not ATTACHMENT_ID.fullmatch(ref):
        raise NotFound(_("This is no file of signal-cli."))
    async with stream_file(client, f"/v1/attachments/{ref}", "signal-cli") as pieces:
        yield pieces


@contextlib.asynccontextmanager
async def fetch_upload(
    files: OutboxFilesClient, outbox_id: int, attachment: Attachment
) -> AsyncIterator[SignalUpload]:
    """Yield an agent's file for a call; raises as `fetch_file`, and RefusedError if it is empty."""
    async with fetch_file(
        files,
        outbox_id,
        attachment,
        max_bytes=MAX_MB * 1_000_000,
        limit=_("Signal limits files to {mb} MB").format(mb=MAX_MB),
    ) as spool:
        size = spool.tell()
        if size == 0:
            raise RefusedError(_("it is empty"))
        mime = attachment.mime if MIME.fullmatch(attachment.mime) else ANY_MIME
        yield SignalUpload(clean_name(attachment.name), mime, spool, size)


def clean_name(name: str) -> str:
    """Return a file name that the REST API takes as a name, and not as a path or a header."""
    plain = UNSAFE.sub("_", name).strip()
    tail = plain.encode()[-MAX_NAME_BYTES:].decode(errors="ignore")
    return tail.lstrip(".") or "file"


def make_upload_body(body: JsonObject, file: SignalUpload) -> dict[str, Any]:
    """Return the body and the headers of a call with a file, as arguments of the HTTP client."""
    header = json.dumps(f"data:{file.mime};filename={file.name};base64,")
    head = f'{json.dumps(body)[:-1]}, "base64_attachments": [{header[:-1]}'.encode()
    tail = b'"]}'
    length = len(head) + (file.size + 2) // 3 * 4 + len(tail)
    return {
        "content": _stream_body(head, file.content, tail),
        "headers": {"Content-Type": "application/json", "Content-Length": str(length)},
    }


async def _stream_body(head: bytes, content: IO[bytes], tail: bytes) -> AsyncIterator[bytes]:
    yield head
    content.seek(0)
    while piece := await asyncio.to_thread(content.read, PIECE_BYTES):
        yield base64.b64encode(piece)
    yield tail
