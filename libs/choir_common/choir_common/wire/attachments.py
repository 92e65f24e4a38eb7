"""Metadata of files in messages: name, type, size and reference, never the content.

A user's file goes from the gateway over HTTP to control (`clients.gateway`) and into the agent's
workspace. An agent's file goes from control's copy to the gateway (`clients.control`).
"""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.wire.model import WireModel
from choir_common.wire.speech import Transcription

AttachmentKind = Literal["document", "photo", "voice", "audio", "video"]
"""How a channel presents the file; `document` is any file, `voice` is speech in Opus: in Ogg,
or in WebM from a browser."""

MAX_FILES = 10
"""Files in one message; the limit of Telegram's albums."""

MAX_FILE_NAME = 255
FileName = Annotated[str, Field(min_length=1, max_length=MAX_FILE_NAME)]
Mime = Annotated[str, Field(min_length=1, max_length=127)]
ANY_MIME = "application/octet-stream"


class Attachment(WireModel):
    """A file of an inbound or outbound message."""

    name: FileName
    """The sender's name for it: untrusted text, not a path."""
    kind: AttachmentKind
    mime: Mime = ANY_MIME
    size: int | None = Field(default=None, ge=0)
    """Bytes; None if the channel does not provide the size."""
    ref: str = Field(min_length=1, max_length=1_000)
    """Inbound: the channel's file id. Outbound: the file's number in the message, as text."""


class ReceivedFile(WireModel):
    """A user's file in the workspace, as the agent sees it."""

    name: FileName
    kind: AttachmentKind
    mime: Mime = ANY_MIME
    size: int = Field(default=0, ge=0)
    path: str = Field(default="", max_length=1_000)
    """Relative to the workspace; empty if the file could not be fetched."""
    problem: str = ""
    """Why it could not be fetched, as a sentence."""
    transcription: Transcription | None = None
    """Of a voice message, made by the agent when it took the message; None in events of older versions."""


class AttachmentText(WireModel):
    """The beginning of the text of a file that the user sent."""

    path: str
    """The file's path in the workspace."""
    text: str = ""
    total_chars: int = 0
    """Length of the whole text; `text` is its beginning."""
    problem: str = ""
    """Why there is no text; it follows the file's name in a sentence."""
    pages: int = Field(default=0, ge=0)
    """Pages of a PDF that models which read PDFs get as it is; 0: all models get the text."""


def is_picture(file: ReceivedFile) -> bool:
    """Return whether a user's file is a picture that could be fetched."""
    return file.mime.startswith("image/") and bool(file.path)


class PictureRef(WireModel):
    """A picture in the workspace that a tool result shows."""

    path: str
    hash: str = ""
    """Hash of the file when the tool read it, as `choir.fs.read` returns it; empty: not compared."""


class SentFile(WireModel):
    """A workspace file that an agent sends to its user."""

    path: str = Field(min_length=1, max_length=1_000)
    """Relative to the workspace, in `.choirtmp/send/`."""
    name: FileName
    kind: AttachmentKind
    mime: Mime = ANY_MIME


class Button(WireModel):
    """A button below a message; a press sends `data` back."""

    label: str = Field(min_length=1, max_length=64)
    data: str = Field(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")
    """At most 64 bytes, Telegram's limit."""
