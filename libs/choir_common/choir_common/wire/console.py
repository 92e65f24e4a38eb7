"""Requests of a user at the console, `/v1/dms/{dm}`: a message, and the press of a button."""

from typing import Self

from pydantic import Field, model_validator

from choir_common.wire.attachments import MAX_FILES
from choir_common.wire.messages import QuotedMessage
from choir_common.wire.model import WireModel

MAX_KEY = 128
"""With the name of the DM (64) as a prefix, the key must fit into the 200 characters of an update id. A key
that was cut off could equal another one."""


class ConsoleMessageRequest(WireModel):
    """A message of a user at the console."""

    text: str = Field(default="", max_length=100_000)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=MAX_KEY)
    """A repeated key stores the message once; without a key, each request is a new message."""
    files: tuple[str, ...] = Field(default=(), max_length=MAX_FILES)
    """The `ref` of each file that was uploaded before."""
    edits: str | None = Field(default=None, min_length=1, max_length=64)
    """The key of the earlier message that this one corrects."""
    reply_to: QuotedMessage | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.text and not self.files:
            raise ValueError("give a text, or name a file")
        return self


class ConsolePressRequest(WireModel):
    """The press of a button at the console."""

    data: str = Field(min_length=1, max_length=64)
    message_id: str | None = Field(default=None, max_length=64)
    """The outbox id of the message with the button."""
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=100)
