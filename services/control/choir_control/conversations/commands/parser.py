"""Parse typed commands and their arguments, and find the agent and session that a command targets.

Also rewrites choirctl commands in a text as the commands that can be typed in a conversation.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_common.errors import Conflict, Forbidden, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_control.agents.operations.store import Requester
from choir_control.agents.sessions.record import SessionRow
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.spec import (
    ArgumentKind,
    CommandArgument,
    CommandCall,
    CommandSpec,
)

# A path such as /etc/hosts is no command, and neither is text after a leading space.
_COMMAND = re.compile(r"/([A-Za-z_][A-Za-z_-]{0,31})(?:@\w{1,64})?(?:\s+(.*))?", re.DOTALL)
MAX_COUNT = 50

AGENT = "agent"


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A message that looks like a command: its first word, and the rest."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments of a command by name, and its settings."""

    values: Mapping[str, str]
    settings: Mapping[str, str]


def parse_command(text: str) -> TypedCommand | None:
    """Return the command that a message looks like, or None for a message to the agent."""
    match = _COMMAND.fullmatch(text.rstrip())
    if match is None:
        return None
    # Telegram does not allow hyphens in command names.
    return TypedCommand(f"/{match[1].lower().replace('_', '-')}", (match[2] or "").strip())


def find_command(
    rows: Sequence[CommandSpec], typed_command: TypedCommand
) -> tuple[CommandSpec, str] | None:
    """Return the matching row and the text of its arguments, or None.

    The row with the longest name wins; then one that takes arguments exactly if some were typed:
    `/voice` and `/voice calm` are different commands.
    """
    matches = [(row, rest) for row in rows if (rest := _rest(row, typed_command)) is not None]
    return max(
        matches,
        key=lambda candidate: (
            len(candidate[0].name),
            bool(candidate[1]) == bool(candidate[0].arguments),
        ),
        default=None,
    )


def _rest(row: CommandSpec, typed_command: TypedCommand) -> str | None:
    if row.typed_form is None:
        return None
    first, *more = row.typed_form.split()
    words = typed_command.rest.split(maxsplit=len(more))
    if first != typed_command.name or [word.lower() for word in words[: len(more)]] != more:
        return None
    return words[len(more)] if len(words) > len(more) else ""


def parse_arguments(row: CommandSpec, text: str) -> ParsedArguments:
    """Parse the arguments of a row. Raises InvalidRequest with the usage."""
    values: dict[str, str] = {}
    settings: dict[str, str] = {}
    rest = text.strip()
    for argument in row.arguments:
        if argument.kind is ArgumentKind.SETTINGS:
            settings, rest = _settings(row, rest), ""
            continue
        # a text argument takes the rest of the message
        value, rest = (rest, "") if argument.kind is ArgumentKind.TEXT else _next_word(rest)
        if value:
            values[argument.name] = _checked(row, argument, value)
        elif argument.required:
            raise InvalidRequest(
                _("An argument is missing: {usage}. Nothing was done.").format(usage=row.usage)
            )
    if rest:
        raise InvalidRequest(
            _("{value!r} is not expected: {usage}. Nothing was done.").format(
                value=rest.split()[0][:60], usage=row.usage
            )
        )
    return ParsedArguments(values, settings)


def _next_word(text: str) -> tuple[str, str]:
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""


def _checked(row: CommandSpec, argument: CommandArgument, value: str) -> str:
    if argument.kind is ArgumentKind.COUNT and not (
        value.isdecimal() and 0 < int(value[:9]) <= MAX_COUNT
    ):
        raise InvalidRequest(
            _("{value!r} is not a number from 1 to {max_count}: {usage}.").format(
                value=value[:60], max_count=MAX_COUNT, usage=row.usage
            )
        )
    return value


def _settings(row: CommandSpec, text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for word in text.split():
        # also accept `--llm=quick`, as on choirctl's command line
        name, equals, value = word.removeprefix("--").partition("=")
        if not (name and equals and value):
            raise InvalidRequest(
                _("{word!r} is not name=value: {usage}. Nothing was done.").format(
                    word=word[:60], usage=row.usage
                )
            )
        settings[name.replace("-", "_")] = value
    return settings


def replace_choirctl_commands(text: str, rows: Sequence[CommandSpec]) -> str:
    """Return a message with each choirctl command replaced by its typed form."""
    # `... set` takes its arguments in another order there
    typed_forms = {
        row.choirctl: row.typed_form
        for row in rows
        if row.typed_form and row.choirctl and not row.choirctl.endswith(" set")
    }
    for command in sorted(typed_forms, key=len, reverse=True):
        text = re.sub(rf"choirctl {re.escape(command)}(?![\w-])", typed_forms[command] or "", text)
    return text


def target_agent(call: CommandCall) -> str:
    """Return the agent that a command targets: the named one, or else the conversation's own.

    Raises Forbidden when a regular conversation names another agent, NotFound when it has none.
    """
    agent_name = call.arguments.get(AGENT)
    if agent_name is not None and not call.is_admin and agent_name != call.bound_agent_id:
        own = (
            _("It is bound to {agent}; omit the name.").format(agent=call.bound_agent_id)
            if call.bound_agent_id
            else _("It has no agent of its own.")
        )
        raise Forbidden(
            _("This conversation is not an admin's. {own} Nothing was done.").format(own=own)
        )
    agent_id = agent_name or call.bound_agent_id
    if agent_id is None:
        raise NotFound(_("No agent is bound to this conversation, so nothing was done."))
    return agent_id


def result_recipient(context: CommandContext, call: CommandCall) -> Requester:
    """Return the conversation of a command, as the recipient of the result of an operation."""
    snapshot = context.configuration.current
    language = snapshot.people.language_in(call.dm)
    return Requester(call.dm, snapshot.gateway_of(call.dm) or "", language)


async def target_session(context: CommandContext, call: CommandCall) -> SessionRow:
    """Return the live session of the target agent. Raises Conflict when the agent is not running."""
    agent_id = target_agent(call)
    context.configuration.current.agent(agent_id)
    session = await context.sessions.find_live(agent_id)
    if session is None:
        raise Conflict(
            _("{agent} is not running, so there is nothing to show.").format(agent=agent_id)
        )
    return session
