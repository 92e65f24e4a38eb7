"""What the fake knows: business numbers, their users, messages and files."""

import asyncio
import base64
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.whatsapp.faults import Fault

WINDOW_S = 24 * 3600


@dataclass(slots=True)
class MediaFile:
    """An uploaded file, of the business or of a user."""

    media_id: str
    mime: str
    content: bytes
    name: str = ""


@dataclass(slots=True)
class FakeMessage:
    """A message in a chat, from the business or from the user."""

    message_id: str
    from_business: bool
    text: str = ""
    choices: dict[str, str] = field(default_factory=dict)
    """The data of each button or row, by its title."""
    is_list: bool = False
    file: MediaFile | None = None
    is_voice: bool = False
    reply_to: str | None = None
    has_preview: bool = False


@dataclass(slots=True)
class FakeChat:
    """The chat of one user with one business number."""

    wa_id: str
    messages: dict[str, FakeMessage] = field(default_factory=dict)
    news: "asyncio.Queue[FakeMessage]" = field(default_factory=asyncio.Queue)
    read: set[str] = field(default_factory=set)
    """The user's messages with a read mark."""
    reactions: dict[str, str] = field(default_factory=dict)
    typing: int = 0
    last_user_at: float = 0.0
    is_unreachable: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_open(self) -> bool:
        """Whether the customer service window is open."""
        return time.time() <= self.last_user_at + WINDOW_S

    def from_business(self) -> list[FakeMessage]:
        """Return the messages on the user's screen that the business sent."""
        return [it for it in self.messages.values() if it.from_business]

    def note_change(self) -> None:
        """Wake the tests that wait for a condition."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_until(self, is_so: Callable[["FakeChat"], bool]) -> None:
        """Wait until the chat fulfils a condition."""
        while not is_so(self):
            await self.changed.wait()


@dataclass(slots=True)
class BusinessNumber:
    """A business number, its app's secret and its webhook."""

    phone_number_id: str
    token: str
    app_secret: str
    webhook_url: str = ""
    chats: dict[str, FakeChat] = field(default_factory=dict)
    media: dict[str, MediaFile] = field(default_factory=dict)
    scripts: dict[str, list[Fault]] = field(default_factory=dict)
    calls: list[JsonObject] = field(default_factory=list)
    updates: "asyncio.Queue[JsonValue]" = field(default_factory=asyncio.Queue)
    statuses_paused: bool = False
    """While set, no statuses are sent, as if Meta were slow."""
    responses: list[int] = field(default_factory=list)
    """The status codes of the webhook's responses."""

    def chat(self, wa_id: str) -> FakeChat:
        """Return the chat with a user; created on first use."""
        return self.chats.setdefault(wa_id, FakeChat(wa_id))

    def next_fault(self, call: str) -> Fault | None:
        """Return the fault for a call: `messages`, `media` or `download`."""
        script = self.scripts.get(call)
        return script.pop(0) if script else None

    def push(self, value: JsonObject) -> None:
        """Queue an update of the field `messages`."""
        self.updates.put_nowait(self.make_update(value))

    def make_update(self, value: JsonObject) -> JsonObject:
        """Return the body of an update."""
        metadata: JsonObject = {
            "display_phone_number": "15550783881",
            "phone_number_id": self.phone_number_id,
        }
        content = {"messaging_product": "whatsapp", "metadata": metadata, **value}
        return {
            "object": "whatsapp_business_account",
            "entry": [
                {"id": "102290129340398", "changes": [{"value": content, "field": "messages"}]}
            ],
        }

    def push_status(self, chat: FakeChat, message_id: str, status: str, extra: JsonObject) -> None:
        """Queue a status of a sent message."""
        if self.statuses_paused:
            return
        body: JsonObject = {
            "id": message_id,
            "status": status,
            "timestamp": str(int(time.time())),
            "recipient_id": chat.wa_id,
            **extra,
        }
        self.push({"statuses": [body]})


def new_message_id(wa_id: str) -> str:
    """Return a message id of the length that WhatsApp's have."""
    content = b"\x1c\x18" + bytes([len(wa_id)]) + wa_id.encode() + b"\x15\x02\x00\x12\x18\x20"
    token = secrets.token_hex(16).upper().encode()
    return "wamid." + base64.b64encode(content + token + b"\x00").decode()


def new_media_id() -> str:
    """Return a media id."""
    return str(secrets.randbelow(10**15) + 10**15)
