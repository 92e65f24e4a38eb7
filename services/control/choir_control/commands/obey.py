"""Execute commands typed in a conversation instead of queueing them for the agent.

Called by `inbox.accept` for every message. A command that signals the agent becomes a signal of the
session that is bound to the conversation, in the statement that stores the message. A command that
changes something else stores the message first, so that a repeated delivery changes nothing. The result
is the acknowledgement's note to the user, never a message in the agent's name.
"""

import asyncio
from collections.abc import Callable
from difflib import get_close_matches
from typing import assert_never

from choir_common.errors import ChoirError, Unavailable
from choir_common.ids import new_id
from choir_common.wire.messages import InboundMessage
from choir_common.wire.signals import SignalBody
from choir_control.commands.choices import Confirmation
from choir_control.commands.hands import Hands
from choir_control.commands.phrasing import as_typed
from choir_control.commands.reading import Typed, find_row, read_arguments, read_typed
from choir_control.commands.row import Act, Ask, Call, Handler, Row, Tell
from choir_control.commands.table import ALIASES, HELP, TABLE, rows_for
from choir_control.inbox.accept import Obeyed
from choir_control.inbox.store import Holder, InboxStore, Stored
from choir_control.inbox.words import greeting_text, nobody_text, what_happens

TAKES_SIGNALS = ("starting", "active", "crashed")
# commands for the agent itself, and the one that the rehearsal model shows in its first greeting
FOR_THE_AGENT = ("/continue", "/tool")

LONGEST_NUMBER = 4
YES = frozenset({"yes", "y"})
"""Answers that confirm a destructive command."""


class Obedience:
    """Handler of the commands in conversations."""

    def __init__(
        self,
        store: InboxStore,
        hands: Hands,
        ring: Callable[[str], None],
        turn_of: Callable[[str], asyncio.Lock],
    ) -> None:
        """`turn_of` returns a conversation's lock: its signals become visible in the order of their ids."""
        self._store = store
        self._hands = hands
        self._ring = ring
        self._turn_of = turn_of

    async def obey(self, message: InboundMessage) -> Obeyed | None:
        """Execute a message that is a command; return None if it is for the agent.

        Raises Unavailable when the same message is being stored by a concurrent request.
        """
        confirmed = await self._confirmed(message)
        typed = confirmed or read_typed(message.text) or await self._chosen(message)
        # any message closes an open question
        self._hands.choices.take_question(message.dm)
        if typed is None or typed.name in FOR_THE_AGENT:
            return None
        holder = await self._store.holder(message.dm)
        try:
            stored, note = await self._do(message, typed, holder, confirmed is not None)
        except Unavailable:
            # Not stored: the gateway must deliver the message again.
            raise
        except ChoirError as error:
            stored, note = None, error.message
        return Obeyed(typed.name, stored or _seen(holder), self._phrased(note, message.dm))

    def _phrased(self, note: str, dm: str) -> str:
        config = self._hands.configuration.current.config
        found = config.dms.get(dm)
        # console users have choirctl; others can only type commands
        if found is None or config.gateways[found.gateway].type == "console":
            return note
        return as_typed(note, TABLE)

    async def _do(
        self, message: InboundMessage, typed: Typed, holder: Holder | None, confirmed: bool
    ) -> tuple[Stored | None, str]:
        is_admin = self._is_admin(message.dm)
        bound = holder.agent_id if holder else await self._usual(message.dm)
        if typed.name == "/start" and not typed.rest:
            # Telegram sends this when a user opens a bot
            return None, greeting_text(bound, holder.status if holder else None)
        row, rest = _find(typed, is_admin)
        if row is None:
            return None, unknown_text(typed, is_admin)
        if row is HELP:
            return None, help_text(is_admin)
        given = read_arguments(row, rest)
        call = Call(
            dm=message.dm,
            is_admin=is_admin,
            bound=bound,
            session_id=holder.session_id if holder else None,
            values=given.values,
            settings=given.settings,
            reply_to=message.reply_to.message_id if message.reply_to else None,
        )
        match row.does:
            case Tell(signal, check):
                if check is not None:
                    await check(self._hands, call)
                return await self._tell(message, signal(call))
            case Ask(answer):
                return None, await answer(self._hands, call)
            case Act(_, question) if question is not None and not confirmed:
                return None, await self._ask_to_confirm(message, call, question)
            case Act(act):
                return await self._act(message, call, act)
            case None:
                return None, help_text(is_admin)
            case _:
                assert_never(row.does)

    async def _usual(self, dm: str) -> str | None:
        """Return the default agent of a conversation that is bound to none."""
        held_last = await self._store.held_last(dm)
        return self._hands.configuration.current.default_agent_of(dm, held_last)

    async def _tell(self, message: InboundMessage, body: SignalBody) -> tuple[Stored, str]:
        async with self._turn_of(message.dm):
            stored = await self._store.obey(new_id("in"), message, body)
        if stored is None:
            raise Unavailable("The same command is being stored elsewhere; try again.")
        if stored.agent_id is None or stored.session_status not in TAKES_SIGNALS:
            return stored, nobody_text(stored.agent_id, stored.session_status)
        if not stored.duplicate:
            self._ring(message.dm)
        return stored, what_happens(body, stored.agent_id, stored.session_status)

    async def _act(self, message: InboundMessage, call: Call, act: Handler) -> tuple[Stored, str]:
        stored = await self._store.close(new_id("in"), message)
        if stored is None:
            raise Unavailable("The same command is being stored elsewhere; try again.")
        if stored.duplicate:
            return stored, "This came before and was taken then; /status shows how things stand."
        try:
            return stored, await act(self._hands, call)
        except ChoirError as error:
            # The message is stored and a repeat would not be executed, so the reason is returned now.
            return stored, error.message

    async def _ask_to_confirm(self, message: InboundMessage, call: Call, question: Handler) -> str:
        asked = await question(self._hands, call)
        last_word = await self._hands.outbox.newest(message.dm)
        self._hands.choices.ask_to_confirm(message.dm, Confirmation(message.text, last_word))
        return f"{asked} Answer yes to do it; anything else leaves everything as it is."

    async def _confirmed(self, message: InboundMessage) -> Typed | None:
        """Return the command that this message confirms, or None."""
        asked = self._hands.choices.take_confirmation(message.dm)
        if asked is None or message.text.strip().rstrip(".!").lower() not in YES:
            return None
        # A yes may instead answer a message sent since the question.
        since = await self._hands.outbox.newest(message.dm)
        return read_typed(asked.text) if since == asked.last_word else None

    async def _chosen(self, message: InboundMessage) -> Typed | None:
        """Return the command that a bare number completes, right after a list with a question."""
        question = self._hands.choices.take_question(message.dm)
        number = message.text.strip()
        if question is None or not (number.isdecimal() and len(number) <= LONGEST_NUMBER):
            return None
        # A number may instead answer a message sent since the question; then the list is shown again.
        since = await self._hands.outbox.newest(message.dm)
        return Typed(question.command, number if since == question.last_word else "")

    def _is_admin(self, dm: str) -> bool:
        found = self._hands.configuration.current.config.dms.get(dm)
        return found is not None and found.admin


def _find(typed: Typed, is_admin: bool) -> tuple[Row | None, str]:
    meant = Typed(ALIASES.get(typed.name, typed.name), typed.rest)
    return find_row(rows_for(is_admin), meant) or (None, "")


def _seen(holder: Holder | None) -> Stored:
    if holder is None:
        return Stored("", False, None, None)
    return Stored("", False, holder.agent_id, holder.status)


def help_text(is_admin: bool) -> str:
    """Return the list of commands as help text."""
    lines = [f"{row.usage_for(is_admin=is_admin)} - {row.summary}" for row in rows_for(is_admin)]
    return "\n".join([*lines, "Everything else goes to the agent."])


def unknown_text(typed: Typed, is_admin: bool) -> str:
    """Return the error text for an unknown or ambiguous command, with suggestions."""
    if find_row(rows_for(is_admin=True), typed) and not is_admin:
        return f"{typed.name} is for admin conversations; /help lists what you can do here. Nothing was done."
    several = [
        row.usage_for(is_admin=is_admin)
        for row in rows_for(is_admin)
        if row.name.startswith(f"{typed.name} ")
    ]
    if several:
        return f"{typed.name} what? There are {', '.join(several)}. Nothing was done."
    names = {row.name.split()[0] for row in rows_for(is_admin)} | ALIASES.keys()
    near = get_close_matches(typed.name, sorted(names), 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return (
        f"There is no command {typed.name}; /help lists those there are.{meant} Nothing was sent. To "
        "send it to the agent as it is, begin with a space."
    )
