"""Acceptance of a user's message: check the conversation, store it, wake the agent, answer the channel.

The agent then receives it through its signal stream. A command is executed instead.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from choir_common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _, translate
from choir_common.ids import new_id
from choir_common.redactor import MASK, Redactor
from choir_common.wire.attachments import MAX_FILE_NAME
from choir_common.wire.messages import (
    MAX_QUOTE,
    MAX_TEXT,
    AgentState,
    InboundAccepted,
    InboundMessage,
)
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import MessageSender
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.conversations.inbox.store import InboxStore, StoredMessage
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier

ATTEMPTS = 3

_STATES: dict[str, AgentState] = {
    "starting": "starting",
    "active": "running",
    "stopping": "stopped",
    "crashed": "crashed",
}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A message that was a command: its stored row and the note for the user."""

    command: str
    row: StoredMessage
    note: str


class CommandExecutor(Protocol):
    """Executes messages that are commands."""

    async def handle(self, message: InboundMessage) -> CommandResult | None:
        """Return the result of a command; None if the message is for the agent."""
        ...


class AppLanguages(Protocol):
    """Keeps the languages of users' apps."""

    async def note_app(self, dm: str, tag: str) -> None:
        """Keep the language that a user's app says; raises Unavailable."""
        ...


class InboxService:
    """Service that accepts users' messages."""

    def __init__(
        self,
        store: InboxStore,
        *,
        configuration: ConfigService,
        commands: CommandExecutor,
        languages: AppLanguages,
        notifier: Notifier,
        signal_locks: SignalLocks,
        redactor: Redactor,
    ) -> None:
        """`redactor` masks secrets that a user typed, before anything is stored."""
        self._store = store
        self._configuration = configuration
        self._commands = commands
        self._languages = languages
        self._notifier = notifier
        self._signal_locks = signal_locks
        self._redactor = redactor

    async def accept(
        self, message: InboundMessage, wake_up: WakeUp | None = None
    ) -> InboundAccepted:
        """Store a message durably, once per (gateway, update_id), and return which agent will answer.

        A command is executed instead, and no agent answers it; one that no person wrote (`wake_up`) is never
        a command. Raises NotFound for a DM that is not configured on that gateway. Raises Conflict if the
        console sent another text under the same key before.
        """
        snapshot = self._configuration.current
        if snapshot.gateway_of(message.dm) != message.gateway:
            raise NotFound(
                _("There is no DM {dm!r} on gateway {gateway!r}.").format(
                    dm=message.dm, gateway=message.gateway
                )
            )
        clean = _redacted(_clean(message), self._redactor)
        await self._languages.note_app(clean.dm, clean.language)
        result = None if wake_up is not None else await self._commands.handle(clean)
        if result is not None:
            self._refuse_another_text(snapshot, clean, result.row)
            agent_id = await self._find_agent(snapshot, message.dm, result.row)
            return _accepted_command(
                agent_id, result, self._configuration.translate(message.dm, result.note)
            )
        # Signals of a DM must be committed in the order of their numbers.
        sender = snapshot.people.find_sender(message.dm, clean.author)
        async with self._signal_locks.of(message.dm):
            row = await self._store_once(clean, sender, wake_up)
        self._refuse_another_text(snapshot, clean, row)
        # A repetition has woken the agent before.
        if not row.duplicate:
            self._notifier.notify(message.dm)
            # The agent's stream reads the signal while the answer to the channel is built.
            await asyncio.sleep(0)
        agent_id = await self._find_agent(snapshot, message.dm, row)
        return _answer(snapshot, message.dm, row, agent_id)

    async def _find_agent(
        self, snapshot: ConfigSnapshot, dm: str, row: StoredMessage
    ) -> str | None:
        """Return the agent bound to the conversation, or else the one that should be."""
        if row.agent_id is not None:
            return row.agent_id
        return snapshot.default_agent_for(dm, await self._store.find_last_agent(dm))

    def _refuse_another_text(
        self, snapshot: ConfigSnapshot, message: InboundMessage, row: StoredMessage
    ) -> None:
        """Raise Conflict if the key of this message was used for another text.

        Only at the console, where clients choose their keys. Another channel may repeat an update
        with a changed text, and after an error it would repeat it endlessly.
        """
        gateway = snapshot.config.gateways.get(message.gateway)
        if row.earlier_text is None or gateway is None or not gateway.channel.uses_choir_api:
            return
        # The stored text was masked with the secrets of that time; mask those that were added
        # since.
        earlier = self._redactor.redact(row.earlier_text)[:MAX_TEXT]
        if not _is_same(earlier, message.text):
            raise Conflict(
                _(
                    "Another message was accepted under this idempotency key before. This one was not "
                    "stored; send it under a key of its own."
                )
            )

    async def _store_once(
        self, message: InboundMessage, sender: MessageSender | None, wake_up: WakeUp | None
    ) -> StoredMessage:
        for _attempt in range(ATTEMPTS):
            row = await self._store.store_message(new_id("in"), message, sender, wake_up)
            if row is not None:
                return row
        raise Unavailable(_("The same message is being stored elsewhere; try again."))


def _clean(message: InboundMessage) -> InboundMessage:
    """Return the message without NUL, which Postgres cannot store in text."""
    if "\x00" in message.update_id:
        raise InvalidRequest(_("An update_id may not hold a NUL character."))
    if "\\u0000" not in message.model_dump_json():
        return message
    # In JSON a backslash that the user typed is doubled, so only a real NUL is removed.
    clean = InboundMessage.model_validate(_without_nul(message.model_dump()))
    if not clean.text and not clean.attachments:
        raise InvalidRequest(_("The message is empty."))
    return clean


def _redacted(message: InboundMessage, redactor: Redactor) -> InboundMessage:
    """Return the message with known secrets masked: in its text, its quote and its file names."""
    reply_to = message.reply_to
    if reply_to is not None:
        quote = redactor.redact(reply_to.text)[:MAX_QUOTE]
        reply_to = reply_to.model_copy(update={"text": quote})
    attachments = tuple(
        file.model_copy(update={"name": redactor.redact(file.name)[-MAX_FILE_NAME:]})
        for file in message.attachments
    )
    text = redactor.redact(message.text)[:MAX_TEXT]
    return message.model_copy(
        update={"text": text, "reply_to": reply_to, "attachments": attachments}
    )


def _is_same(earlier: str, text: str) -> bool:
    """Return True if `text` may be the text that was stored; a mask matches any characters.

    Control forgets replaced secrets at a restart, so the repetition of a masked text may arrive
    unmasked.
    """
    first, *parts = earlier.split(MASK)
    if not parts:
        return earlier == text
    if not text.startswith(first):
        return False
    at, last = len(first), parts.pop()
    for part in parts:
        position = text.find(part, at)
        if position < 0:
            return False
        at = position + len(part)
    # A text that was cut after masking may continue in any way.
    return (text.endswith(last) and len(text) - len(last) >= at) or len(earlier) == MAX_TEXT


def _without_nul(value: object) -> object:
    match value:
        case str():
            return value.replace("\x00", "")
        case dict():
            return {key: _without_nul(inner) for key, inner in value.items()}
        case tuple() | list():
            return tuple(_without_nul(inner) for inner in value)
        case _:
            return value


def _accepted_command(agent_id: str | None, result: CommandResult, note: str) -> InboundAccepted:
    return InboundAccepted(
        inbox_id=result.row.inbox_id,
        duplicate=result.row.duplicate,
        agent_id=agent_id,
        agent_state=_state(agent_id, result.row),
        note=note,
        command=result.command,
    )


def _state(agent_id: str | None, row: StoredMessage) -> AgentState:
    if agent_id is None:
        return "unbound"
    return "stopped" if row.session_status is None else _STATES[row.session_status]


def _answer(
    snapshot: ConfigSnapshot, dm: str, row: StoredMessage, agent_id: str | None
) -> InboundAccepted:
    state = _state(agent_id, row)
    how_to_start = _how_to_start(snapshot, dm, agent_id)
    note = _note(state, agent_id, how_to_start) or _leaving(snapshot, agent_id)
    return InboundAccepted(
        inbox_id=row.inbox_id,
        duplicate=row.duplicate,
        agent_id=agent_id,
        agent_state=state,
        note=None if note is None else translate(note, snapshot.people.language_in(dm)),
    )


def _leaving(snapshot: ConfigSnapshot, agent_id: str | None) -> str | None:
    """Return a note if the configuration has removed the agent while it still runs."""
    if agent_id is None or agent_id in snapshot.config.agents:
        return None
    return _(
        "{agent} was removed from the configuration. It still answers until an operator stops it."
    ).format(agent=agent_id)


def _how_to_start(snapshot: ConfigSnapshot, dm: str, agent_id: str | None) -> str:
    """Return how this user can start the agent; users of a phone have no choirctl."""
    conversation = snapshot.config.dms[dm]
    if snapshot.config.gateways[conversation.gateway].channel.uses_choir_api:
        return f"choirctl agent start {agent_id}"
    is_admin = snapshot.people.is_admin(dm)
    if is_admin:
        return f"/start {agent_id}"
    return _("an admin can use /start {agent}").format(agent=agent_id)


def _note(state: AgentState, agent_id: str | None, how_to_start: str) -> str | None:
    match state:
        case "running" | "starting":
            return None
        case "crashed":
            return _(
                "{agent} has crashed and is being started again; your message is kept."
            ).format(agent=agent_id)
        case "stopped":
            return _(
                "{agent} is not running. Your message is kept and will be answered when it is "
                "started ({how_to_start})."
            ).format(agent=agent_id, how_to_start=how_to_start)
        case "unbound":
            return _(
                "No agent is bound to this conversation. Your message is kept for the first one."
            )
