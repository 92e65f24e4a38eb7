"""Execute commands typed in a conversation instead of queueing them for the agent.

A command that signals the agent becomes a signal of the
session that is bound to the conversation, in the statement that stores the message. A command that
changes something else stores the message first, so that a repeated delivery changes nothing. The result
is the acknowledgement's note to the user, never a message in the agent's name.
"""

from difflib import get_close_matches
from typing import assert_never

from choir_common.errors import ChoirError, Unavailable
from choir_common.i18n import _, join
from choir_common.ids import new_id
from choir_common.wire.memory_modes import DEFAULT_MODE
from choir_common.wire.messages import InboundMessage
from choir_common.wire.signals import SignalBody
from choir_control.agents.sessions.memory_modes import format_memory
from choir_control.configuration.people import Rank
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.dialogue import OpenConfirmation
from choir_control.conversations.commands.error_texts import error_text
from choir_control.conversations.commands.parser import (
    TypedCommand,
    find_command,
    parse_arguments,
    parse_command,
    replace_choirctl_commands,
)
from choir_control.conversations.commands.ranks import FOR_DECIDERS, is_for_rank
from choir_control.conversations.commands.spec import (
    CommandCall,
    CommandFunction,
    CommandSpec,
    MutationAction,
    QueryAction,
    SignalAction,
)
from choir_control.conversations.commands.table import ALIASES, CHAT_COMMANDS, HELP, commands_for
from choir_control.conversations.commands.texts import (
    format_greeting,
    format_no_agent,
    format_signal_effect,
)
from choir_control.conversations.inbox.service import CommandResult
from choir_control.conversations.inbox.store import BoundSession, InboxStore, StoredMessage
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier

SIGNALLED_STATUSES = ("starting", "active", "crashed")
# commands for the agent itself, and the one that the rehearsal model shows in its first greeting
AGENT_COMMANDS = ("/continue", "/tool")

MAX_DIGITS = 4
CONFIRMING_ANSWERS = frozenset({"yes", "y", "ja", "j"})
"""Answers that confirm a destructive command."""


class CommandHandler:
    """Handler of the commands in conversations."""

    def __init__(
        self,
        store: InboxStore,
        *,
        context: CommandContext,
        notifier: Notifier,
        signal_locks: SignalLocks,
    ) -> None:
        self._store = store
        self._context = context
        self._notifier = notifier
        self._signal_locks = signal_locks

    async def handle(self, message: InboundMessage) -> CommandResult | None:
        """Execute a message that is a command; return None if it is for the agent.

        Raises Unavailable when the same message is being stored by a concurrent request.
        """
        confirmed = await self._take_confirmed_command(message)
        typed_command = (
            confirmed or parse_command(message.text) or await self._take_chosen_command(message)
        )
        # any message closes an open question
        self._context.dialogue.take_question(message.dm)
        rank = self._context.configuration.current.people.rank_of(message.dm, message.author)
        if typed_command is None and _means_continue(message.text):
            typed_command = TypedCommand("/continue")
        if typed_command is None or (
            typed_command.name in AGENT_COMMANDS and not _is_refused(typed_command, rank)
        ):
            return None
        holder = await self._store.find_bound_session(message.dm)
        try:
            inbox_row, note = await self._execute(
                message, typed_command, holder, confirmed is not None
            )
        except Unavailable:
            # Not stored: the gateway must deliver the message again.
            raise
        except ChoirError as error:
            inbox_row, note = None, error_text(error)
        # before the commands are replaced: a changed text has no translation
        note = self._context.configuration.translate(message.dm, note)
        return CommandResult(
            typed_command.name, inbox_row or _seen(holder), self._adapt_to_channel(note, message.dm)
        )

    def _adapt_to_channel(self, note: str, dm: str) -> str:
        config = self._context.configuration.current.config
        conversation = config.dms.get(dm)
        # console users have choirctl; others can only type commands
        if conversation is None or config.gateways[conversation.gateway].channel.uses_choir_api:
            return note
        return replace_choirctl_commands(note, CHAT_COMMANDS)

    async def _execute(
        self,
        message: InboundMessage,
        typed_command: TypedCommand,
        holder: BoundSession | None,
        confirmed: bool,
    ) -> tuple[StoredMessage | None, str]:
        people = self._context.configuration.current.people
        rank = people.rank_of(message.dm, message.author)
        is_admin = rank == "admin"
        agent_id = holder.agent_id if holder else await self._default_agent(message.dm)
        if typed_command.name == "/start" and not typed_command.rest:
            # Telegram sends this when a user opens a bot
            memory = await self._context.memory_modes.show(message.dm)
            sentence = format_memory(memory) if memory.mode != DEFAULT_MODE else ""
            return None, format_greeting(agent_id, holder.status if holder else None, sentence)
        row, rest = _find(typed_command, rank)
        if row is None:
            return None, unknown_text(typed_command, rank)
        if row is HELP:
            return None, help_text(rank)
        arguments = parse_arguments(row, rest)
        call = CommandCall(
            dm=message.dm,
            is_admin=is_admin,
            rank=rank,
            bound_agent_id=agent_id,
            session_id=holder.session_id if holder else None,
            home_dm=holder.home_dm if holder else self._find_home(message.dm, agent_id),
            arguments=arguments.values,
            settings=arguments.settings,
            reply_to=message.reply_to.message_id if message.reply_to else None,
            sender=people.find_sender(message.dm, message.author),
        )
        match row.action:
            case SignalAction(signal, check):
                if check is not None:
                    await check(self._context, call)
                return await self._send_signal(message, signal(call))
            case QueryAction(answer):
                return None, await answer(self._context, call)
            case MutationAction(_, question) if question is not None and not confirmed:
                return None, await self._ask_to_confirm(message, call, question)
            case MutationAction(act):
                return await self._execute_mutation(message, call, act)
            case None:
                return None, help_text(rank)
            case _:
                assert_never(row.action)

    async def _default_agent(self, dm: str) -> str | None:
        """Return the default agent of a conversation that is bound to none."""
        last_agent = await self._store.find_last_agent(dm)
        return self._context.configuration.current.default_agent_for(dm, last_agent)

    def _find_home(self, dm: str, agent_id: str | None) -> str | None:
        """Return the home conversation of an agent that does not run."""
        agent = self._context.configuration.current.config.agents.get(agent_id or "")
        return agent.defaults.dm if agent is not None and dm in agent.conversations else None

    async def _send_signal(
        self, message: InboundMessage, body: SignalBody
    ) -> tuple[StoredMessage, str]:
        # Signals of a DM must become visible in the order of their ids.
        async with self._signal_locks.of(message.dm):
            inbox_row = await self._store.store_command(new_id("in"), message, body)
        if inbox_row is None:
            raise Unavailable(_("The same command is being processed; try again."))
        if inbox_row.agent_id is None or inbox_row.session_status not in SIGNALLED_STATUSES:
            return inbox_row, format_no_agent(inbox_row.agent_id, inbox_row.session_status)
        if not inbox_row.duplicate:
            self._notifier.notify(message.dm)
        return inbox_row, format_signal_effect(body, inbox_row.agent_id, inbox_row.session_status)

    async def _execute_mutation(
        self, message: InboundMessage, call: CommandCall, act: CommandFunction
    ) -> tuple[StoredMessage, str]:
        inbox_row = await self._store.store_handled_command(new_id("in"), message)
        if inbox_row is None:
            raise Unavailable(_("The same command is being processed; try again."))
        if inbox_row.duplicate:
            return inbox_row, _(
                "This command was already executed; /status shows the current state."
            )
        try:
            return inbox_row, await act(self._context, call)
        except ChoirError as error:
            # The message is stored and a repeat would not be executed, so the reason is returned now.
            return inbox_row, error_text(error)

    async def _ask_to_confirm(
        self, message: InboundMessage, call: CommandCall, question: CommandFunction
    ) -> str:
        text = await question(self._context, call)
        newest_id = await self._context.outbox.read_newest_id(message.dm)
        self._context.dialogue.set_confirmation(
            _asked(message), OpenConfirmation(message.text, newest_id)
        )
        return join(" ", (text, _("Reply yes to continue; any other reply cancels.")))

    async def _take_confirmed_command(self, message: InboundMessage) -> TypedCommand | None:
        """Return the command that this message confirms, or None."""
        confirmation = self._context.dialogue.take_confirmation(_asked(message))
        if (
            confirmation is None
            or message.text.strip().rstrip(".!").lower() not in CONFIRMING_ANSWERS
        ):
            return None
        # A yes may instead answer a message sent since the question.
        since = await self._context.outbox.read_newest_id(message.dm)
        if since != confirmation.last_outbox_id:
            return None
        return parse_command(confirmation.text)

    async def _take_chosen_command(self, message: InboundMessage) -> TypedCommand | None:
        """Return the command that a bare number completes, right after a list with a question."""
        question = self._context.dialogue.take_question(message.dm)
        number = message.text.strip()
        if question is None or not (number.isdecimal() and len(number) <= MAX_DIGITS):
            return None
        # A number may instead answer a message sent since the question; then the list is shown again.
        since = await self._context.outbox.read_newest_id(message.dm)
        return TypedCommand(question.command, number if since == question.last_outbox_id else "")


def _asked(message: InboundMessage) -> str:
    """Return who was asked to confirm: in a group only the one who typed the command."""
    return message.dm if message.author is None else f"{message.dm}\0{message.author.user_id}"


def _means_continue(text: str) -> bool:
    """Return whether a message is `/continue` for the agent although it does not look like a command."""
    return text.strip().rstrip(".!").lower() == "/continue"


def _is_refused(typed_command: TypedCommand, rank: Rank) -> bool:
    """Return whether a command for the agent is not for these people."""
    return typed_command.name in FOR_DECIDERS and rank not in ("admin", "user")


def _find(typed_command: TypedCommand, rank: Rank) -> tuple[CommandSpec | None, str]:
    command = TypedCommand(ALIASES.get(typed_command.name, typed_command.name), typed_command.rest)
    best = find_command(commands_for("admin"), command)
    # for members a changing form of a command is refused, and not read as the form that only shows
    if rank in ("member", "guest") and best is not None and not is_for_rank(best[0], rank):
        return None, ""
    return find_command(commands_for(rank), command) or (None, "")


def _seen(holder: BoundSession | None) -> StoredMessage:
    if holder is None:
        return StoredMessage("", False, None, None)
    return StoredMessage("", False, holder.agent_id, holder.status)


def help_text(rank: Rank) -> str:
    """Return the list of commands as help text."""
    lines = [
        join(" - ", (row.usage_for(is_admin=rank == "admin"), row.summary))
        for row in commands_for(rank)
    ]
    return join("\n", [*lines, _("Any other message goes to the agent.")])


def unknown_text(typed_command: TypedCommand, rank: Rank) -> str:
    """Return the error text for an unknown or ambiguous command, with suggestions."""
    is_admin = rank == "admin"
    if find_command(commands_for("admin"), typed_command) and not is_admin:
        return _(
            "{command} is for admin conversations; /help lists what you can do here. Nothing was done."
        ).format(command=typed_command.name)
    several = [
        row.usage_for(is_admin=is_admin)
        for row in commands_for(rank)
        if row.name.startswith(f"{typed_command.name} ")
    ]
    if several:
        return _("{command} needs one of: {forms}. Nothing was done.").format(
            command=typed_command.name, forms=", ".join(several)
        )
    names = {row.name.split()[0] for row in commands_for(rank)} | ALIASES.keys()
    similar = get_close_matches(typed_command.name, sorted(names), 1)
    parts = [
        _("There is no command {command}; /help lists all commands.").format(
            command=typed_command.name
        )
    ]
    if similar:
        parts.append(_("Did you mean {command}?").format(command=similar[0]))
    parts.append(_("Nothing was sent. To send it to the agent unchanged, begin with a space."))
    return join(" ", parts)
