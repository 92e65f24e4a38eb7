"""The parts of Slack's JSON that the channel reads; unknown fields are ignored. Pure."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

TS_PATTERN = r"^\d{1,12}\.\d{1,9}$"


class SlackObject(BaseModel):
    """A JSON object of Slack."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class FileObject(SlackObject):
    """A file of a message."""

    id: str = Field(min_length=1, max_length=64)
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    subtype: str | None = None
    mode: str = ""
    """`tombstone` after it was deleted."""
    is_external: bool = False
    """It is at another provider, such as Google Drive."""
    url_private: str = ""
    url_private_download: str = ""


class EditStamp(SlackObject):
    """The last edit of a message by its author."""

    ts: str = Field(pattern=TS_PATTERN)


class MessageObject(SlackObject):
    """A message, in an event or in a history."""

    ts: str = Field(pattern=TS_PATTERN)
    """The time that Slack gave it, which is its id within the channel."""
    user: str | None = None
    bot_id: str | None = None
    subtype: str | None = None
    text: str | None = None
    thread_ts: str | None = Field(default=None, pattern=TS_PATTERN)
    """The first message of its thread; its own `ts` if it is that message."""
    parent_user_id: str | None = None
    """Of a reply: who wrote the first message of the thread."""
    edited: EditStamp | None = None
    files: tuple[FileObject, ...] = ()
    latest_reply: str | None = Field(default=None, pattern=TS_PATTERN)

    @property
    def edited_ts(self) -> str:
        """The time of the last edit; empty if it was not edited."""
        return self.edited.ts if self.edited else ""

    @property
    def thread(self) -> str | None:
        """The first message of the thread that it belongs to; None outside threads."""
        return self.thread_ts if self.thread_ts != self.ts else None


class MessageEvent(SlackObject):
    """An event of the Events API about a message."""

    type: str
    channel: str = ""
    channel_type: str = ""
    subtype: str | None = None
    message: dict[str, JsonValue] | None = None
    """The changed message, for the subtype `message_changed`."""


class EventCallback(SlackObject):
    """The payload of an envelope `events_api`."""

    event: dict[str, JsonValue]


class PressSender(SlackObject):
    """The user of an interaction."""

    id: str


class PressOrigin(SlackObject):
    """The message with the button that was pressed."""

    type: str
    message_ts: str = Field(default="", pattern=r"^$|" + TS_PATTERN)
    channel_id: str = ""
    thread_ts: str | None = Field(default=None, pattern=TS_PATTERN)


class PressedButton(SlackObject):
    """A pressed element."""

    type: str
    action_ts: str = Field(max_length=40)
    value: str = ""


class BlockPress(SlackObject):
    """The payload of an envelope `interactive` for pressed buttons."""

    type: str
    user: PressSender
    container: PressOrigin
    actions: tuple[PressedButton, ...] = Field(min_length=1)


class SocketMessage(SlackObject):
    """A message of Socket Mode."""

    type: str
    envelope_id: str | None = None
    payload: dict[str, JsonValue] = Field(default_factory=dict)
    reason: str = ""
    """Of `disconnect`."""


class ResponseMetadata(SlackObject):
    """The place of the next page; empty on the last one."""

    next_cursor: str = ""


class SlackHistoryPage(SlackObject):
    """A page of `conversations.history` or `conversations.replies`."""

    messages: tuple[MessageObject, ...] = ()
    response_metadata: ResponseMetadata | None = None


class ChannelReference(SlackObject):
    """The id of a channel."""

    id: str


class OpenedChannel(SlackObject):
    """The response of `conversations.open`."""

    channel: ChannelReference


class PostedMessage(SlackObject):
    """The response of `chat.postMessage`."""

    ts: str


class UploadAddress(SlackObject):
    """The response of `files.getUploadURLExternal`."""

    upload_url: str
    file_id: str


class BotIdentity(SlackObject):
    """The response of `auth.test`."""

    user_id: str = ""
    user: str = ""
    """The name of the bot."""


class UserProfile(SlackObject):
    """The names of a user that Slack shows, the first one if it is not empty."""

    display_name: str = ""
    real_name: str = ""


class UserObject(SlackObject):
    """A user of the workspace."""

    name: str = ""
    is_bot: bool = False
    profile: UserProfile = UserProfile()


class UserResponse(SlackObject):
    """The response of `users.info`."""

    user: UserObject


class SlackFile(SlackObject):
    """The response of `files.info`."""

    file: FileObject


class SocketAddress(SlackObject):
    """The response of `apps.connections.open`."""

    url: str


def ts_order(ts: str) -> tuple[int, int]:
    """Return what a `ts` is sorted by; an empty one comes first."""
    seconds, _, count = ts.partition(".")
    return (int(seconds or 0), int(count or 0))
