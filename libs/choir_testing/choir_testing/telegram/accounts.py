"""Bots, chats, messages and files of the fake Telegram.

`server` has one `BotRegistry`; `methods` changes it for bots, `user` for people.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from choir_common.wire.model import JsonObject
from choir_testing.telegram.faults import BotApiError, Fault, bad_request
from choir_testing.telegram.mailbox import UpdateQueue
from choir_testing.telegram.rate_limits import RateLimits


@dataclass(frozen=True, slots=True)
class InlineButton:
    """One button of an inline keyboard."""

    text: str
    callback_data: str


@dataclass(slots=True)
class SentMessage:
    """A message in a chat, from the bot or the user; an edit changes it in place."""

    message_id: int
    from_bot: bool
    text: str
    parse_mode: str | None = None
    buttons: tuple[InlineButton, ...] = ()
    file_kind: str | None = None
    file_name: str | None = None
    file_bytes: bytes | None = None
    reply_to: int | None = None
    topic: int | None = None
    """Of a forum; None: the general one."""
    sender: JsonObject | None = None
    """Who wrote it in a group, as Bot API JSON; None for the bot."""
    entities: tuple[JsonObject, ...] = ()
    """Mentions and commands in the text of a user, as Bot API JSON."""
    reactions: tuple[str, ...] = ()
    """The bot's reactions to a message of the user."""
    shared: JsonObject = field(default_factory=dict)
    """A location, venue or contact, under the names of its fields in Bot API JSON."""
    markup: str = ""
    """The text as the bot sent it, with markup."""
    preview: bool = True
    """Whether Telegram shows previews of the links in the text."""
    edits: int = 0
    date: int = field(default_factory=lambda: int(time.time()))


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft that the bot shows while it writes; its next message replaces it."""

    draft_id: int
    text: str


@dataclass(slots=True)
class Chat:
    """A private chat between one user and one bot; `news` contains the bot's messages in order."""

    user_id: int
    first_name: str
    messages: dict[int, SentMessage] = field(default_factory=dict)
    new_messages: "asyncio.Queue[SentMessage]" = field(default_factory=asyncio.Queue)
    actions: list[str] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    draft: Draft | None = None
    """The draft that the user sees now."""
    drafts: list[Draft] = field(default_factory=list)
    """All drafts that the bot has sent."""
    blocked: bool = False
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        """Wake the tasks that wait for a condition in this chat."""
        self._stirred.set()

    async def wait_until(self, is_so: Callable[["Chat"], bool]) -> None:
        """Wait until the condition is true; it is checked after each action of the bot."""
        while not is_so(self):
            self._stirred.clear()
            await self._stirred.wait()

    def as_json(self) -> JsonObject:
        """Return the chat as Bot API JSON."""
        return {"id": self.user_id, "type": "private", "first_name": self.first_name}

    def user_json(self) -> JsonObject:
        """Return the chat's user as Bot API JSON."""
        return {"id": self.user_id, "is_bot": False, "first_name": self.first_name}

    def bot_texts(self) -> list[str]:
        """Return every text the bot sent here, in order, with edits applied."""
        return [m.text for m in self.messages.values() if m.from_bot]


@dataclass(slots=True)
class Group(Chat):
    """A supergroup that the bot is in; with topics it is a forum."""

    topics: set[int] = field(default_factory=set)
    """The ids of its topics, without the general one."""

    def as_json(self) -> JsonObject:
        """Return the chat as Bot API JSON."""
        forum: JsonObject = {"is_forum": True} if self.topics else {}
        return {"id": self.user_id, "type": "supergroup", "title": self.first_name, **forum}

    def check_topic(self, topic: int | None) -> int | None:
        """Return the topic of a message to the group; raises BotApiError 400 for an unknown one."""
        if topic is not None and topic not in self.topics:
            raise bad_request("message thread not found")
        return topic


@dataclass(slots=True)
class Webhook:
    """A bot's webhook; an empty url means long polling."""

    url: str = ""
    secret_token: str | None = None
    kinds: tuple[str, ...] = ()
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class CallbackAnswer:
    """A bot's response to a button press."""

    query_id: str
    text: str | None
    show_alert: bool


@dataclass(frozen=True, slots=True)
class BotCall:
    """One call by a bot, for tests that check the requests and not only their effect."""

    method: str
    arguments: JsonObject


@dataclass(slots=True)
class Bot:
    """One bot account, identified by its token."""

    token: str
    username: str
    mailbox: UpdateQueue = field(default_factory=UpdateQueue)
    chats: dict[int, Chat] = field(default_factory=dict)
    webhook: Webhook = field(default_factory=Webhook)
    commands: dict[str, list[JsonObject]] = field(default_factory=dict)
    """Command menus by scope: `default`, `all_private_chats`, `chat_span:7`."""
    answers: list[CallbackAnswer] = field(default_factory=list)
    open_queries: set[str] = field(default_factory=set)
    calls: list[BotCall] = field(default_factory=list)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    scripts: dict[str, list[Fault]] = field(default_factory=dict)
    rate_limits: RateLimits | None = None
    """If set, the bot's calls above Telegram's rate limits are rejected."""
    _message_ids: "count[int]" = field(default_factory=lambda: count(1))
    _file_ids: "count[int]" = field(default_factory=lambda: count(1))

    groups: "dict[int, Group]" = field(default_factory=dict)

    @property
    def bot_id(self) -> int:
        """The number before the colon in the token, as with Telegram."""
        return int(self.token.split(":", 1)[0])

    def as_json(self) -> JsonObject:
        """Return the bot as Bot API JSON."""
        return {
            "id": self.bot_id,
            "is_bot": True,
            "first_name": self.username,
            "username": self.username,
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }

    def chat(self, chat_id: int) -> Chat:
        """Return the chat with this user.

        Raises BotApiError: 400 for a user who never wrote, 403 for one who blocked the bot.
        """
        chat = self.chats.get(chat_id) or self.groups.get(chat_id)
        if chat is None:
            raise bad_request("chat not found")
        if chat.blocked:
            raise BotApiError(403, "Forbidden: bot was blocked by the user")
        return chat

    def new_message_id(self) -> int:
        """Return the next message id of this bot."""
        return next(self._message_ids)

    def store_file(self, name: str, content: bytes) -> str:
        """Store a file and return its `file_id`."""
        file_id = f"file-{next(self._file_ids)}"
        self.files[file_id] = (name, content)
        return file_id

    def forget_files(self) -> None:
        """Lose every file, as Telegram does after a while."""
        self.files.clear()

    def next_fault(self, method: str) -> Fault | None:
        """Remove and return the next scripted fault of a method, if any."""
        script = self.scripts.get(method)
        return script.pop(0) if script else None


@dataclass(slots=True)
class BotRegistry:
    """All bots of this fake Telegram, by token."""

    bots: dict[str, Bot] = field(default_factory=dict)

    def bot(self, token: str) -> Bot:
        """Return the bot. Raises BotApiError 401 for an unknown token."""
        if token not in self.bots:
            raise BotApiError(401, "Unauthorized")
        return self.bots[token]
