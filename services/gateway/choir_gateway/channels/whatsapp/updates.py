"""The JSON of Meta's updates, as far as the channel reads it. Fields that are added later are ignored.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from choir_gateway.channels.whatsapp.cloud_api import MetaError


class UpdateModel(BaseModel):
    """A part of an update."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TextContent(UpdateModel):
    """The content of a text message."""

    body: str


class MediaContent(UpdateModel):
    """A file; which fields there are depends on its kind."""

    id: str
    mime_type: str = ""
    caption: str = ""
    filename: str = ""
    voice: bool = False


class LocationContent(UpdateModel):
    """A position, with a name if it is a place."""

    latitude: float
    longitude: float
    name: str = ""
    address: str = ""


class ContactName(UpdateModel):
    """The name of a contact."""

    formatted_name: str = ""


class ContactPhone(UpdateModel):
    """A phone number of a contact."""

    phone: str = ""


class ContactContent(UpdateModel):
    """A contact that the user shares."""

    name: ContactName = ContactName()
    phones: tuple[ContactPhone, ...] = ()


class ReplyChoice(UpdateModel):
    """The button or the row that the user chose."""

    id: str
    title: str = ""


class InteractiveContent(UpdateModel):
    """The choice in a message with buttons or with a list."""

    button_reply: ReplyChoice | None = None
    list_reply: ReplyChoice | None = None


class TemplateButton(UpdateModel):
    """A press of a button of a template, which another program sent."""

    text: str = ""


class UnsupportedContent(UpdateModel):
    """What the Cloud API does not pass on."""

    type: str = ""


class MessageContext(UpdateModel):
    """The earlier message to which one refers, or that it was forwarded."""

    id: str | None = None
    forwarded: bool = False
    frequently_forwarded: bool = False


class UserUpdate(UpdateModel):
    """A message of a user; `type` names the field with its content."""

    id: str = Field(min_length=1, max_length=256)
    sender: str = Field(default="", alias="from")
    """The phone number; absent for a user who hides it behind a user name."""
    from_user_id: str = ""
    """Meta's id of the user for this business."""
    group_id: str | None = None
    timestamp: int
    type: str
    context: MessageContext | None = None
    text: TextContent | None = None
    image: MediaContent | None = None
    video: MediaContent | None = None
    audio: MediaContent | None = None
    document: MediaContent | None = None
    location: LocationContent | None = None
    contacts: tuple[ContactContent, ...] = ()
    interactive: InteractiveContent | None = None
    button: TemplateButton | None = None
    unsupported: UnsupportedContent | None = None


class StatusUpdate(UpdateModel):
    """What became of a message that was sent."""

    id: str = Field(min_length=1, max_length=256)
    status: str
    recipient_id: str = ""
    recipient_user_id: str = ""
    biz_opaque_callback_data: str = ""
    errors: tuple[MetaError, ...] = ()


class SenderProfile(UpdateModel):
    """What a user shows to everybody."""

    name: str = ""


class SenderContact(UpdateModel):
    """The sender of the messages beside it."""

    wa_id: str = ""
    user_id: str = ""
    profile: SenderProfile = SenderProfile()


class NumberMetadata(UpdateModel):
    """The business number that an update concerns."""

    phone_number_id: str


class NumberUpdate(UpdateModel):
    """The content of a change."""

    metadata: NumberMetadata | None = None
    messages: tuple[UserUpdate, ...] = ()
    contacts: tuple[SenderContact, ...] = ()
    statuses: tuple[StatusUpdate, ...] = ()
    errors: tuple[MetaError, ...] = ()

    def name_of(self, update: UserUpdate) -> str:
        """Return the name that the sender of a message chose; an empty text without one."""
        for contact in self.contacts:
            ids = {contact.wa_id, contact.user_id} - {""}
            if ids & {update.sender, update.from_user_id}:
                return contact.profile.name
        return ""


class Change(UpdateModel):
    """A change; only those of the field `messages` are read."""

    field: str
    value: NumberUpdate = NumberUpdate()


class Entry(UpdateModel):
    """The changes of one business account."""

    changes: tuple[Change, ...] = ()


class UpdateRequest(UpdateModel):
    """The body of a request to the webhook."""

    object: Literal["whatsapp_business_account"]
    entry: tuple[Entry, ...] = ()
