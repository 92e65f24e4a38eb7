"""One request as a turn of a conversation: send the user's message once, and follow it until its answer.

The message is durable before anything is followed. A client that goes away loses nothing: the agent answers
into the conversation, and a repeated request gets that answer.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from choir_common.errors import ChoirError, DeadlineExceeded, Unauthorized, Unavailable
from choir_common.reply_text import ReplyText
from choir_common.wire.console import ConsoleMessageRequest
from choir_common.wire.events import NON_CLOSING_KINDS
from choir_common.wire.messages import InboundAccepted, OutboundMessage
from choir_control.api.openai.chat_request import UserMessage
from choir_control.api.openai.console_client import ConsoleConversation, DraftText
from choir_control.api.openai.error_responses import FAILED
from choir_control.api.operator.console import GatewayClients
from choir_control.api_clients.service import NO_CLIENT, ApiClientService
from choir_control.configuration.api_clients import ApiClient
from choir_control.conversations.inbox.answer_store import AnswerStore, MessageState

RETRY_WINDOW = timedelta(minutes=15)
LOOK_EVERY_TICKS = 10
MAX_UNTAKEN_S = 60.0
MAX_TURN_S = 3600.0
MAX_KEYS = 1000
RETRY_AFTER_S = 5.0


class AgentFailure(ChoirError):
    """The agent could not answer."""

    code, status = FAILED, 502


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's message that is stored."""

    dm: str
    accepted: InboundAccepted


class RetryDetector:
    """Idempotency keys: the client's own, or one by which a repetition of the same request is found.

    Clients of OpenAI send no key, but count their retries. Equal requests that are no retries are different
    messages: a user may say the same twice.
    """

    def __init__(self, answers: AnswerStore) -> None:
        self._answers = answers
        self._recent: dict[tuple[str, str], str] = {}
        """Keys of requests of this process, which may not be stored yet."""

    async def key_of(self, dm: str, body: bytes, *, own_key: str | None, is_retry: bool) -> str:
        """Return the key of a request to a conversation."""
        if own_key is not None:
            return f"own-{hashlib.sha256(own_key.encode()).hexdigest()[:40]}"
        digest = hashlib.sha256(body).hexdigest()[:32]
        if is_retry:
            update = await self._answers.find_update(dm, f"{dm}:{digest}.", RETRY_WINDOW)
            earlier = update.partition(":")[2] if update else self._recent.get((dm, digest))
            if earlier is not None:
                return earlier
        key = f"{digest}.{secrets.token_hex(8)}"
        self._recent[(dm, digest)] = key
        while len(self._recent) > MAX_KEYS:
            del self._recent[next(iter(self._recent))]
        return key


class TurnService:
    """Service of turns: what the routes of the API use."""

    def __init__(
        self, *, gateway: GatewayClients, answers: AnswerStore, clients: ApiClientService
    ) -> None:
        self.answers = answers
        self.keys = RetryDetector(answers)
        self._gateway = gateway
        self._clients = clients

    async def send(self, dm: str, message: UserMessage, key: str) -> Turn:
        """Store a message; raises Unavailable if its agent does not run, and the errors of the gateway."""
        conversation = ConsoleConversation(self._gateway, dm)
        files = [await conversation.upload(file) for file in message.files]
        accepted = await conversation.send(
            ConsoleMessageRequest(text=message.text, idempotency_key=key, files=tuple(files))
        )
        if accepted.command is None and accepted.agent_state == "stopped":
            raise Unavailable(accepted.note, retry_after_s=RETRY_AFTER_S)
        return Turn(dm, accepted)

    async def find(self, dm: str, agent_id: str, inbox_id: str) -> Turn | None:
        """Return the turn of a message that was stored in a conversation; None if there is none."""
        if await self.answers.find_dm(inbox_id) != dm:
            return None
        accepted = InboundAccepted(
            inbox_id=inbox_id, duplicate=True, agent_id=agent_id, agent_state="running"
        )
        return Turn(dm, accepted)

    async def follow(self, turn: Turn, client: ApiClient) -> AsyncGenerator[str, None]:
        """Yield the pieces of the answer; an empty one each second in which nothing happens.

        Raises AgentFailure for an answer of kind error, DeadlineExceeded after an hour, Unavailable if no
        agent takes the message up, and Unauthorized when the client is revoked.
        """
        if turn.accepted.command is not None:
            yield turn.accepted.note or "Done."
            return
        state = await self._read_state(turn)
        text, progress = ReplyText(), _Progress(turn.accepted.inbox_id, state)
        events = ConsoleConversation(self._gateway, turn.dm).follow(state.previous_outbox_id)
        async with aclosing(events):
            async for event in events:
                if not self._clients.is_valid(client):
                    raise Unauthorized(NO_CLIENT)
                match event:
                    case None:
                        if progress.needs_look():
                            progress.note(await self._read_state(turn))
                        yield ""
                    case DraftText(text=draft):
                        yield text.grow(draft) if progress.is_ours else ""
                    case OutboundMessage():
                        if progress.is_answer(event):
                            yield text.finish(_answer_text(event))
                            return
                        if progress.is_interim(event):
                            yield text.add(event.text)

    async def _read_state(self, turn: Turn) -> MessageState:
        state = await self.answers.read_state(turn.accepted.inbox_id)
        if state is None:
            raise AgentFailure("The message was erased before it was answered.")
        return state


class _Progress:
    """What is known about a message that waits for its answer."""

    def __init__(self, inbox_id: str, state: MessageState) -> None:
        self._inbox_id = inbox_id
        self._earlier = set(state.earlier_open)
        self._is_closed = False
        self._began = asyncio.get_running_loop().time()
        self._ticks = 0

    @property
    def is_ours(self) -> bool:
        """Return whether a draft is of this turn: all earlier messages have their answers."""
        return not self._earlier

    def needs_look(self) -> bool:
        """Count a second; return whether it is time to look at the state again."""
        self._ticks += 1
        return self._ticks % LOOK_EVERY_TICKS == 0

    def note(self, state: MessageState) -> None:
        """Take in a new state; raises the errors of `TurnService.follow`."""
        self._earlier &= state.earlier_open
        waited_s = asyncio.get_running_loop().time() - self._began
        if self._is_closed:  # since the last look: an answer would have arrived by now
            raise AgentFailure("The message was closed without an answer, for example by /cancel.")
        self._is_closed = state.is_closed
        if not state.is_taken and not state.is_closed and waited_s > MAX_UNTAKEN_S:
            raise Unavailable(
                "No agent has taken the message up; `choirctl agent status` says why. It is kept.",
                retry_after_s=RETRY_AFTER_S,
            )
        if waited_s > MAX_TURN_S:
            raise DeadlineExceeded(
                "The agent works for more than an hour; read its answer in the conversation."
            )

    def is_answer(self, message: OutboundMessage) -> bool:
        """Return whether a message is the answer; raises AgentFailure if it is an error."""
        if message.answers is not None and message.kind not in NON_CLOSING_KINDS:
            self._earlier.discard(message.answers)
        if message.answers != self._inbox_id or message.kind in NON_CLOSING_KINDS:
            return False
        if message.kind == "error":
            raise AgentFailure(message.text)
        return True

    def is_interim(self, message: OutboundMessage) -> bool:
        """Return whether a message belongs to the turn although it does not end it."""
        return self.is_ours and message.kind in NON_CLOSING_KINDS


def _answer_text(message: OutboundMessage) -> str:
    """Return the text of an answer, with the names of its files, which this API cannot send."""
    if not message.attachments:
        return message.text
    names = ", ".join(file.name for file in message.attachments)
    return f"{message.text}\n\n(Files in the conversation {message.dm}: {names})".strip()
