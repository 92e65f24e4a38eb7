"""The JSON that arrives over the WebSocket, as far as the channel reads it. Other fields are ignored.

Source: `src/main/java/org/asamk/signal/json/` of https://github.com/AsamK/signal-cli
"""

import base64
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

GROUP_PREFIX = "group."

ItemT = TypeVar("ItemT")


def _without_null(items: object) -> object:
    return () if items is None else items


Items = Annotated[tuple[ItemT, ...], BeforeValidator(_without_null)]
"""A list that may be missing or null."""
SignalTime = Annotated[int, Field(ge=0, le=999_999_999_999_999)]
"""Milliseconds since 1970, by the clock of the sender."""


class EnvelopeModel(BaseModel):
    """A part of an envelope."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class SignalMention(EnvelopeModel):
    """A mention of a person; the text has one placeholder character for it."""

    name: str | None = None
    number: str | None = None
    uuid: str | None = None
    start: int = Field(ge=0)
    """In UTF-16 units."""
    length: int = Field(ge=0)


class SignalAttachment(EnvelopeModel):
    """A file, which signal-cli has downloaded."""

    id: str | None = None
    content_type: str | None = Field(default=None, alias="contentType")
    filename: str | None = None
    size: int | None = None


class SignalQuote(EnvelopeModel):
    """The message to which one replies."""

    id: SignalTime
    """Its time."""
    author_number: str | None = Field(default=None, alias="authorNumber")
    author_uuid: str | None = Field(default=None, alias="authorUuid")
    text: str | None = None


class SignalReaction(EnvelopeModel):
    """An emoji on a message."""

    emoji: str = ""
    target_author_number: str | None = Field(default=None, alias="targetAuthorNumber")
    target_timestamp: SignalTime = Field(alias="targetSentTimestamp")
    is_remove: bool = Field(default=False, alias="isRemove")


class SignalDeletion(EnvelopeModel):
    """The deletion of an own message for everybody."""

    timestamp: SignalTime


class SignalGroup(EnvelopeModel):
    """The group of a message."""

    group_id: str = Field(alias="groupId", max_length=100)

    @property
    def address(self) -> str:
        """Return the group's id as the REST API names it."""
        return GROUP_PREFIX + base64.b64encode(self.group_id.encode()).decode()


class UnreadPart(EnvelopeModel):
    """A part whose fields are not read."""


class SignalContent(EnvelopeModel):
    """A message, or what is shown as one: a reaction, a deletion, a change of the timer."""

    timestamp: SignalTime
    message: str | None = None
    expires_in_seconds: int | None = Field(default=None, alias="expiresInSeconds")
    is_expiration_update: bool | None = Field(default=None, alias="isExpirationUpdate")
    view_once: bool | None = Field(default=None, alias="viewOnce")
    reaction: SignalReaction | None = None
    quote: SignalQuote | None = None
    mentions: Items[SignalMention] = ()
    attachments: Items[SignalAttachment] = ()
    sticker: UnreadPart | None = None
    contacts: Items[UnreadPart] = ()
    poll: UnreadPart | None = Field(default=None, alias="pollCreate")
    payment: UnreadPart | None = None
    deletion: SignalDeletion | None = Field(default=None, alias="remoteDelete")
    group: SignalGroup | None = Field(default=None, alias="groupInfo")
    story: UnreadPart | None = Field(default=None, alias="storyContext")

    @property
    def has_content(self) -> bool:
        """Return whether a user would see it as a message."""
        others = (self.sticker, self.contacts, self.poll, self.payment)
        return bool(self.message or self.attachments or any(others))


class SignalEdit(EnvelopeModel):
    """The correction of a message."""

    target_timestamp: SignalTime = Field(alias="targetSentTimestamp")
    """The time of the message, or of its newest earlier correction."""
    content: SignalContent = Field(alias="dataMessage")


class Envelope(EnvelopeModel):
    """What one device sent. The account's own other devices send a `syncMessage`, which is not read."""

    source_number: str | None = Field(default=None, alias="sourceNumber")
    source_uuid: str | None = Field(default=None, alias="sourceUuid")
    source_name: str | None = Field(default=None, alias="sourceName")
    message: SignalContent | None = Field(default=None, alias="dataMessage")
    edit: SignalEdit | None = Field(default=None, alias="editMessage")

    @property
    def content(self) -> SignalContent | None:
        """Return the message or the new text of an edited one."""
        return self.edit.content if self.edit else self.message


class ReceiveError(EnvelopeModel):
    """Why an envelope could not be read."""

    message: str | None = None
    type: str | None = None


class ReceivedFrame(EnvelopeModel):
    """One text of the WebSocket."""

    account: str | None = None
    envelope: Envelope | None = None
    exception: ReceiveError | None = None
    error: str | None = None
