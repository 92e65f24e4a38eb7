"""Bots, channels, and messages of the fake Discord.

`rest` and `gateway` change them by the calls of a bot, `user` and `guild` by the actions of people.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from choir_common.wire.model import JsonObject
from choir_testing.discord.faults import Fault
from choir_testing.discord.rate_limits import RateLimits
from choir_testing.discord.sessions import GatewaySessions

DISCORD_EPOCH_MS = 1_420_070_400_000
_numbers = count(1)

SUPPRESS_EMBEDS = 1 << 2


def new_snowflake() -> int:
    """Return a new id: the time in milliseconds and a counter."""
    return ((int(time.time() * 1000) - DISCORD_EPOCH_MS) << 22) | (next(_numbers) & 0x3FFFFF)


@dataclass(frozen=True, slots=True)
class FakeFile:
    """A file of a message."""

    file_id: int
    name: str
    content: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class FakeButton:
    """A button below a message."""

    label: str
    custom_id: str


@dataclass(frozen=True, slots=True)
class GuildMember:
    """A user in a server."""

    user_id: int
    username: str
    global_name: str | None = None
    nick: str | None = None
    """The name in this server."""
    is_bot: bool = False


@dataclass(slots=True)
class FakeMessage:
    """A message."""

    message_id: int
    author_id: int
    text: str
    files: list[FakeFile] = field(default_factory=list)
    buttons: list[list[FakeButton]] = field(default_factory=list)
    flags: int = 0
    kind: int = 0
    reply_to: int | None = None
    sticker: str | None = None
    nonce: str | None = None
    pings: bool = False
    """Whether it notifies by a mention in its text."""
    author: GuildMember | None = None
    """In a server, unless it is the bot's."""
    mentions: list[int] = field(default_factory=list)
    """The ids of the users that it mentions."""
    webhook_id: int | None = None
    edited_at: datetime | None = None
    edits: int = 0
    sent_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def has_preview(self) -> bool:
        """Whether Discord fetches an address of the text to preview it."""
        bare = self.text.replace("<http", "")
        return "http" in bare and not self.flags & SUPPRESS_EMBEDS

    def labels(self) -> list[str]:
        """Return the labels of its buttons."""
        return [button.label for row in self.buttons for button in row]


@dataclass(slots=True)
class DmChannel:
    """The direct messages of a bot with a user."""

    channel_id: int
    user_id: int
    messages: dict[int, FakeMessage] = field(default_factory=dict)
    is_blocked: bool = False
    typing: int = 0
    notices: list[str] = field(default_factory=list)
    """Ephemeral responses to presses."""
    news: "asyncio.Queue[FakeMessage]" = field(default_factory=asyncio.Queue)
    """New and edited messages of the bot, for `FakeDiscordUser.receive`."""
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
        """Return the texts of the bot's messages, oldest first."""
        return [it.text for it in self.messages.values() if it.author_id != self.user_id]


@dataclass(slots=True)
class ServerChannel(DmChannel):
    """A channel of a server, or a thread of one; it has no single user."""

    guild_id: int = 0
    parent_id: int | None = None
    """The channel of a thread."""


@dataclass(slots=True)
class PendingInteraction:
    """A press of a button and its responses."""

    interaction_id: int
    channel: DmChannel
    created: float = field(default_factory=time.monotonic)
    response_type: int | None = None


@dataclass(frozen=True, slots=True)
class RestCall:
    """A call that a bot made."""

    method: str
    route: str
    body: JsonObject


@dataclass(slots=True)
class FakeBot:
    """One application with its bot user."""

    token: str
    user_id: int = field(default_factory=new_snowflake)
    channels: dict[int, DmChannel] = field(default_factory=dict)
    interactions: dict[str, PendingInteraction] = field(default_factory=dict)
    """By their tokens."""
    calls: list[RestCall] = field(default_factory=list)
    scripts: dict[str, list[Fault]] = field(default_factory=dict)
    sessions: GatewaySessions = field(default_factory=GatewaySessions)
    rate_limits: RateLimits | None = None
    guild_ids: list[int] = field(default_factory=list)
    """The servers that it has joined."""
    may_read_all: bool = False
    """Whether the Message Content Intent is switched on."""

    def next_fault(self, route: str) -> Fault | None:
        """Return the next scripted fault of a route."""
        faults = self.scripts.get(route)
        return faults.pop(0) if faults else None

    def channel_of(self, user_id: int) -> DmChannel | None:
        """Return the direct messages with a user."""
        return next((it for it in self.channels.values() if it.user_id == user_id), None)

    def channels_in(self, guild_id: int) -> list[ServerChannel]:
        """Return the channels and threads of a server."""
        servers = [it for it in self.channels.values() if isinstance(it, ServerChannel)]
        return [it for it in servers if it.guild_id == guild_id]

    def count_calls(self, route: str) -> int:
        """Return how often a route was called, such as `POST /channels/*/messages`."""
        return sum(f"{call.method} {call.route}" == route for call in self.calls)
