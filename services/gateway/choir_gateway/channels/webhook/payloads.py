"""The JSON bodies of webhook requests: what a program sends to Choir, and what Choir sends to it."""

import base64
import binascii
from typing import Annotated, Literal

from pydantic import Base64Encoder, EncodedBytes, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from choir_common.wire.attachments import (
    ANY_MIME,
    MAX_FILES,
    AttachmentKind,
    Button,
    FileName,
    Mime,
)
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import MAX_TEXT, QuotedMessage
from choir_common.wire.model import AwareTime, WireModel

MessageId = Annotated[str, Field(min_length=1, max_length=64)]
UserId = Annotated[str, Field(min_length=1, max_length=64)]


class StrictBase64Encoder(Base64Encoder):
    """Base64 that refuses other characters; pydantic's own drops them, and a damaged file would pass."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        """Return the bytes. Raises PydanticCustomError."""
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise PydanticCustomError("base64_decode", "must be base64") from error


class WebhookFile(WireModel):
    """A file with its content."""

    name: FileName
    kind: AttachmentKind = "document"
    mime: Mime = ANY_MIME
    content: Annotated[bytes, EncodedBytes(encoder=StrictBase64Encoder)]
    """The bytes in base64."""


class UserMessage(WireModel):
    """A message of a user; the request's `webhook-id` identifies it, so a repetition is stored once."""

    type: Literal["message"]
    user: UserId
    """The `user_id` of a conversation in config.json; messages of other users are ignored."""
    text: str = Field(default="", max_length=MAX_TEXT)
    message_id: MessageId | None = None
    """The program's id of it, to which a later edit refers."""
    edits: MessageId | None = None
    """The `message_id` of the earlier message that this one corrects."""
    reply_to: QuotedMessage | None = None
    files: tuple[WebhookFile, ...] = Field(default=(), max_length=MAX_FILES)


class UserPress(WireModel):
    """A user's press of a button."""

    type: Literal["press"]
    user: UserId
    data: str = Field(min_length=1, max_length=64)
    """The `data` of the button."""
    message_id: MessageId | None = None
    """The `id` of the message with the button."""


UserUpdate = Annotated[UserMessage | UserPress, Field(discriminator="type")]
USER_UPDATE: TypeAdapter[UserMessage | UserPress] = TypeAdapter(UserUpdate)


class UpdateAnswer(WireModel):
    """The response to an update: it is durable."""

    is_stored: bool
    """False if the user is unknown, so that it was ignored."""
    note: str | None = None
    """A sentence for the user: the result of a command or of a press, or why no reply is expected soon."""


class AgentMessage(WireModel):
    """A message for a user; a repeated request has the same `id` and `webhook-id`."""

    type: Literal["message"] = "message"
    id: MessageId
    user: str
    agent: str
    """The sender; `choir` for Choir itself."""
    kind: ReplyKind
    text: str
    at: AwareTime
    reply_to: str | None = None
    """The `message_id` of the user's message that this answers, if newer ones have arrived since."""
    edits: str | None = None
    """The `id` of the earlier message that this one replaces, with its buttons."""
    buttons: tuple[Button, ...] = ()
    files: tuple[WebhookFile, ...] = ()
    maybe_repeated: bool = False
    """An earlier request with this `id` may have arrived."""
