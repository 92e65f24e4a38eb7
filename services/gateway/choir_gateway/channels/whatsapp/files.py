"""Transfer of files: downloads from WhatsApp for `channel`, and uploads to it for `sender`.

Types and limits: https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media
"""

import codecs
import contextlib
import mimetypes
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO

from choir_common.clients.control import OutboxFilesClient
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError, fetch_file, stream_file
from choir_gateway.channels.whatsapp.cloud_api import CloudApi, Upload
from choir_gateway.channels.whatsapp.parts import FileMessagePart

MB = 1024 * 1024
MAX_DOCUMENT_MB = 100
PIECE_BYTES = 64 * 1024
PLAIN_TEXT = "text/plain"
OFFICE = "application/vnd.openxmlformats-officedocument"


@dataclass(frozen=True, slots=True)
class MediaType:
    """A kind of message with a file."""

    name: str
    mimes: frozenset[str]
    max_mb: int


IMAGE = MediaType("image", frozenset({"image/jpeg", "image/png"}), 5)
VIDEO = MediaType("video", frozenset({"video/mp4", "video/3gpp"}), 16)
AUDIO = MediaType(
    "audio",
    frozenset({"audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg"}),
    16,
)
DOCUMENT = MediaType(
    "document",
    frozenset(
        {
            PLAIN_TEXT,
            "application/pdf",
            "application/msword",
            "application/vnd.ms-excel",
            "application/vnd.ms-powerpoint",
            f"{OFFICE}.wordprocessingml.document",
            f"{OFFICE}.spreadsheetml.sheet",
            f"{OFFICE}.presentationml.presentation",
        }
    ),
    MAX_DOCUMENT_MB,
)
MEDIA_TYPES = (IMAGE, VIDEO, AUDIO, DOCUMENT)


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file that WhatsApp takes, and how it presents it."""

    part: FileMessagePart
    media: MediaType
    mime: str

    def make_body(self, media_id: str) -> JsonObject:
        """Return the content of the call that sends the uploaded file."""
        content: JsonObject = {"id": media_id}
        if self.media is DOCUMENT:
            content["filename"] = self.part.attachment.name
        if self.media is AUDIO and self.part.attachment.kind == "voice":
            content["voice"] = True
        if self.media is not AUDIO and self.part.caption:
            content["caption"] = self.part.caption
        return {"type": self.media.name, self.media.name: content}


@contextlib.asynccontextmanager
async def download_file(api: CloudApi, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the bytes of a user's file. Raises NotFound, RateLimited, Unavailable."""
    address = await api.find_media(ref)
    async with stream_file(api.client, address, "WhatsApp") as pieces:
        yield pieces


@contextlib.asynccontextmanager
async def fetch_upload(
    files: OutboxFilesClient, outbox_id: int, part: FileMessagePart
) -> AsyncIterator[tuple[OutgoingFile, Upload]]:
    """Yield an agent's file as WhatsApp takes it; raises as `fetch_file`, RefusedError for others."""
    limit = _("WhatsApp limits files to {mb} MB").format(mb=MAX_DOCUMENT_MB)
    async with fetch_file(
        files, outbox_id, part.attachment, max_bytes=MAX_DOCUMENT_MB * MB, limit=limit
    ) as spool:
        size = spool.tell()
        if size == 0:
            raise RefusedError(_("it is empty"))
        file = _classify(part, spool)
        if size > file.media.max_mb * MB:
            raise RefusedError(
                _("WhatsApp limits a file of this kind to {mb} MB").format(mb=file.media.max_mb)
            )
        yield file, Upload(name=part.attachment.name, mime=file.mime, content=spool)


def _classify(part: FileMessagePart, spool: IO[bytes]) -> OutgoingFile:
    """Choose how to send a file. Raises RefusedError if WhatsApp takes no such file."""
    guessed = mimetypes.guess_type(part.attachment.name)[0]
    for mime in (part.attachment.mime.partition(";")[0].strip(), guessed or ""):
        for media in MEDIA_TYPES:
            if mime in media.mimes:
                return OutgoingFile(part, media, mime)
    # Any text is plain text: source code, Markdown, JSON.
    if _is_text(spool):
        return OutgoingFile(part, DOCUMENT, PLAIN_TEXT)
    raise RefusedError(
        _(
            "WhatsApp takes JPEG and PNG pictures, MP4 videos, audio, PDF, Office and text files only"
        )
    )


def _is_text(spool: IO[bytes]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    spool.seek(0)
    try:
        while piece := spool.read(PIECE_BYTES):
            if "\0" in decoder.decode(piece):
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
