"""Files beside a message: what each is called and where it can be had, never its bytes.

A channel's file goes from the gateway's door to control's (`clients.gateway_files`) and is laid into the
agent's workspace; an agent's goes from control's spool to the gateway (`clients.outbox_files`).
"""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.wire.model import Wire

AttachmentKind = Literal["document", "photo", "voice", "audio", "video"]
"""How a channel shows it; `document` is any file as it is, `voice` is Ogg Opus spoken to the user."""

MAX_FILES = 10
"""In one message; Telegram's own albums hold as many."""

MAX_FILE_NAME = 255
FileName = Annotated[str, Field(min_length=1, max_length=MAX_FILE_NAME)]
Mime = Annotated[str, Field(min_length=1, max_length=127)]
ANY_MIME = "application/octet-stream"


class Attachment(Wire):
    """A file that belongs to a message on its way in or out."""

    name: FileName
    """As the sender calls it: words of a stranger, no path."""
    kind: AttachmentKind
    mime: Mime = ANY_MIME
    size: int | None = Field(default=None, ge=0)
    """Bytes; none where the channel does not say."""
    ref: str = Field(min_length=1, max_length=1_000)
    """Inbound: the channel's own id of the file. Outbound: its number in the message, as text."""


class ReceivedFile(Wire):
    """A user's file as the agent finds it."""

    name: FileName
    kind: AttachmentKind
    mime: Mime = ANY_MIME
    size: int = Field(default=0, ge=0)
    path: str = Field(default="", max_length=1_000)
    """Below the workspace; empty if the file could not be had."""
    problem: str = ""
    """Why it could not be had, in a sentence."""


class SentFile(Wire):
    """A file of the workspace that an agent sends to its user."""

    path: str = Field(min_length=1, max_length=1_000)
    """Below the workspace, in `.choirtmp/send/`."""
    name: FileName
    kind: AttachmentKind
    mime: Mime = ANY_MIME


class Button(Wire):
    """A button below a message; pressing it brings `data` back."""

    label: str = Field(min_length=1, max_length=64)
    data: str = Field(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")
    """Telegram takes at most 64 bytes."""
