"""What the fake knows: the agent's account, people, groups, chats and files."""

import asyncio
import base64
import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from choir_common.wire.model import JsonObject
from choir_testing.signal.faults import Fault

TIMEOUT_S = 200.0
OWN_NUMBER = "+4915100000000"
OWN_ID = "0b0b0b0b-0000-4000-8000-000000000001"


@dataclass(slots=True)
class SignalFile:
    """A file in a message."""

    name: str
    content: bytes
    mime: str = "application/octet-stream"


@dataclass(slots=True)
class SignalMessage:
    """A message on a screen, with its edits applied."""

    timestamp: int
    author: str
    """The id of the account that sent it."""
    text: str
    styles: tuple[str, ...] = ()
    """As signal-cli gets them: `start:length:STYLE`."""
    file: SignalFile | None = None
    quote: tuple[int, str, str] | None = None
    """Time, author and text of the message to which it replies."""
    is_deleted: bool = False
    revisions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class SignalChat:
    """A chat of the agent's account with a person or a group."""

    messages: list[SignalMessage] = field(default_factory=list)
    is_typing: bool = False
    reactions: dict[int, str] = field(default_factory=dict)
    """The emojis of the agent's account, by the times of the messages."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def find(self, timestamp: int) -> SignalMessage | None:
        """Return the message with this time, or that was edited at this time."""
        matching = (it for it in self.messages if timestamp in (it.timestamp, *it.revisions))
        return next(matching, None)

    def from_agent(self) -> list[SignalMessage]:
        """Return the messages of the agent's account."""
        return [it for it in self.messages if it.author == OWN_ID]

    def note_change(self) -> None:
        """Wake the tests that wait for a condition."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_until(self, is_so: Callable[["SignalChat"], bool]) -> None:
        """Wait until the chat fulfils a condition."""
        async with asyncio.timeout(TIMEOUT_S):
            while not is_so(self):
                await self.changed.wait()


@dataclass(slots=True)
class SignalAccounts:
    """The account of the agent and its chats."""

    mode: str = "json-rpc"
    chats: dict[str, SignalChat] = field(default_factory=dict)
    """By the id of a person, or the id of a group as the REST API names it."""
    ids: dict[str, str] = field(default_factory=dict)
    """The ids of people by their phone numbers."""
    attachments: dict[str, SignalFile] = field(default_factory=dict)
    unregistered: set[str] = field(default_factory=set)
    """Numbers of people who have left Signal."""
    script: list[Fault] = field(default_factory=list)
    calls: list[JsonObject] = field(default_factory=list)
    """The bodies of the calls that send."""
    lists_results: bool = True
    """Whether a call that sends returns a list, as newer versions do."""
    _times: "itertools.count[int]" = field(
        default_factory=lambda: itertools.count(int(time.time() * 1000))
    )

    def new_time(self) -> int:
        """Return a time that no other message has."""
        return next(self._times)

    def chat(self, place: str) -> SignalChat:
        """Return a chat; created on first use."""
        return self.chats.setdefault(place, SignalChat())

    def new_attachment(self, file: SignalFile) -> str:
        """Keep the file of a user as signal-cli does; return its id."""
        suffix = f".{file.name.rpartition('.')[2]}" if "." in file.name else ""
        attachment_id = secrets.token_urlsafe(12).strip("-") + suffix
        self.attachments[attachment_id] = file
        return attachment_id


def make_group_id(name: str) -> tuple[str, str]:
    """Return the id of a group as signal-cli and as the REST API name it."""
    internal = base64.b64encode(name.encode().ljust(32, b"\0")[:32]).decode()
    return internal, "group." + base64.b64encode(internal.encode()).decode()
