"""Apps, direct messages and messages of the fake Slack.

`methods` changes them by the calls of an app, `user` by the actions of a person.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from choir_common.wire.model import JsonObject
from choir_testing.slack.blocks import FakeButton
from choir_testing.slack.faults import Fault
from choir_testing.slack.rate_limits import RateLimits
from choir_testing.slack.sockets import SocketHub

ALL_SCOPES = frozenset(
    {
        *("chat:write", "im:history", "im:write", "files:read", "files:write", "reactions:write"),
        *("app_mentions:read", "channels:history", "groups:history", "users:read"),
    }
)
BOT_NAME = "Choir"
_last_micros = 0


def new_ts() -> str:
    """Return a new message's time, which is its id."""
    global _last_micros
    _last_micros = max(int(time.time() * 1_000_000), _last_micros + 1)
    return f"{_last_micros // 1_000_000}.{_last_micros % 1_000_000:06}"


def new_id(kind: str) -> str:
    """Return a new id, such as D0F1E2D3C4."""
    return f"{kind}0{secrets.token_hex(4).upper()}"


@dataclass(slots=True)
class FakeFile:
    """A file at Slack."""

    name: str
    content: bytes
    mimetype: str = "application/octet-stream"
    subtype: str | None = None
    external_url: str | None = None
    is_deleted: bool = False
    file_id: str = field(default_factory=lambda: new_id("F"))


@dataclass(slots=True)
class FakeMessage:
    """A message in direct messages."""

    author: str
    text: str
    """As the user sees it, without marks."""
    ts: str = field(default_factory=new_ts)
    thread_ts: str | None = None
    is_broadcast: bool = False
    """Of a reply: whether it is shown in the conversation, too."""
    blocks: list[JsonObject] = field(default_factory=list)
    buttons: list[FakeButton] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    """The texts that are shown as quotations."""
    files: list[FakeFile] = field(default_factory=list)
    reactions: set[str] = field(default_factory=set)
    """The app's reactions."""
    has_preview: bool = False
    subtype: str | None = None
    edited_ts: str | None = None
    edits: int = 0

    def labels(self) -> list[str]:
        """Return the labels of its buttons."""
        return [button.label for button in self.buttons]


@dataclass(slots=True)
class DmChannel:
    """The direct messages of an app with a user."""

    user_id: str
    channel_id: str = field(default_factory=lambda: new_id("D"))
    messages: dict[str, FakeMessage] = field(default_factory=dict)
    is_deactivated: bool = False
    notices: list[str] = field(default_factory=list)
    """Ephemeral messages of the app."""
    news: "asyncio.Queue[FakeMessage]" = field(default_factory=asyncio.Queue)
    """New and edited messages of the app, for `FakeSlackUser.receive`."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note_change(self) -> None:
        """Wake the waiting tests."""
        self._changed.set()

    async def wait_until(self, is_so: Callable[["DmChannel"], bool]) -> None:
        """Wait until the channel fulfils a condition."""
        while not is_so(self):
            self._changed.clear()
            await self._changed.wait()

    def bot_texts(self) -> list[str]:
        """Return the texts of the app's messages, oldest first."""
        return [it.text for it in self.messages.values() if it.author != self.user_id]

    def replies(self, ts: str) -> list[FakeMessage]:
        """Return the replies in a thread, oldest first."""
        return [it for it in self.messages.values() if it.thread_ts == ts]


@dataclass(slots=True)
class RoomChannel(DmChannel):
    """A public or private channel of the workspace."""

    is_private: bool = False
    is_member: bool = True
    """Whether the app was invited."""

    @property
    def history_scope(self) -> str:
        """The permission to read the channel."""
        return "groups:history" if self.is_private else "channels:history"


@dataclass(frozen=True, slots=True)
class FakePerson:
    """A user of the workspace with the names that Slack shows."""

    user_id: str
    display_name: str = ""
    real_name: str = ""
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call that an app made."""

    method: str
    arguments: JsonObject


@dataclass(slots=True)
class FakeApp:
    """One app, installed in one workspace."""

    bot_token: str
    app_token: str
    app_id: str = field(default_factory=lambda: new_id("A"))
    team_id: str = field(default_factory=lambda: new_id("T"))
    bot_id: str = field(default_factory=lambda: new_id("B"))
    bot_user_id: str = field(default_factory=lambda: new_id("U"))
    scopes: set[str] = field(default_factory=lambda: set(ALL_SCOPES))
    auth_error: str | None = None
    """The error code of all calls with the bot token, such as `token_revoked`."""
    channels: dict[str, DmChannel] = field(default_factory=dict)
    people: dict[str, FakePerson] = field(default_factory=dict)
    """The users whom `users.info` knows."""
    serves_login_page: bool = False
    """While set, files are answered by a redirect to the login page."""
    uploads: dict[str, FakeFile] = field(default_factory=dict)
    """Files that are uploaded but not shown yet, by the key of their address."""
    calls: list[ApiCall] = field(default_factory=list)
    scripts: dict[str, list[Fault]] = field(default_factory=dict)
    sockets: SocketHub = field(default_factory=SocketHub)
    rate_limits: RateLimits | None = None

    def next_fault(self, method: str) -> Fault | None:
        """Return the next scripted fault of a method."""
        faults = self.scripts.get(method)
        return faults.pop(0) if faults else None

    def channel_of(self, user_id: str) -> DmChannel | None:
        """Return the direct messages with a user."""
        return next((it for it in self.channels.values() if it.user_id == user_id), None)

    def count_calls(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(call.method == method for call in self.calls)

    def find_file(self, file_id: str) -> FakeFile | None:
        """Return a file of any message."""
        for channel in self.channels.values():
            for message in channel.messages.values():
                for file in message.files:
                    if file.file_id == file_id and not file.is_deleted:
                        return file
        return None
