"""The few commands a person may type in a conversation, in one table, and how a message is read as one.

Called by `accept`; listed by the operator door for whoever completes them. Pure.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from choir_common.wire.operator import CommandView

# a path such as /etc/hosts is no command, and neither is anything after a space
_COMMAND = re.compile(r"/([A-Za-z_]{1,32})(?:@\w{1,64})?(?:\s+(.*))?", re.DOTALL)
# words that mean something to the agent itself, and the one the rehearsal model teaches at the first hello
_FOR_THE_AGENT = ("continue", "tool")


class Verb(StrEnum):
    """What a command does."""

    INJECT = "inject"
    CANCEL = "cancel"
    COMPACT = "compact"
    JOBS = "jobs"
    HELP = "help"


COMMANDS: dict[Verb, CommandView] = {
    Verb.INJECT: CommandView(
        name="/inject",
        usage="/inject <text>",
        summary="Tell the agent something at once, while it works.",
    ),
    Verb.CANCEL: CommandView(
        name="/cancel",
        usage="/cancel [job]",
        summary="Stop what it is doing for you now, or one of its jobs.",
    ),
    Verb.COMPACT: CommandView(
        name="/compact",
        usage="/compact",
        summary="Let it sum up the older part of the conversation.",
    ),
    Verb.JOBS: CommandView(
        name="/jobs", usage="/jobs", summary="Show what it and its jobs are doing."
    ),
    Verb.HELP: CommandView(name="/help", usage="/help", summary="Show these commands."),
}
CONTINUE = CommandView(
    name="/continue",
    usage="/continue",
    summary="Let it spend as much again when a budget is used up.",
)
# what Telegram sends when somebody opens a bot
_ALIASES = {"start": Verb.HELP}


@dataclass(frozen=True, slots=True)
class Command:
    """A message that is a command; `verb` is none for one that does not exist."""

    name: str
    verb: Verb | None
    argument: str = ""


def read_command(text: str) -> Command | None:
    """Return the command a message is; none for a message to the agent."""
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    name = found[1].lower()
    if name in _FOR_THE_AGENT:
        return None
    verb = _ALIASES.get(name) or (Verb(name) if name in {v.value for v in Verb} else None)
    return Command(f"/{name}", verb, (found[2] or "").strip())


def all_commands() -> tuple[CommandView, ...]:
    """Return every command, with the one that goes to the agent itself."""
    return (*COMMANDS.values(), CONTINUE)


def help_text() -> str:
    """Return the list of commands for a person."""
    lines = [f"{view.usage} - {view.summary}" for view in all_commands()]
    return "\n".join([*lines, "Everything else goes to the agent."])


def unknown_text(command: Command) -> str:
    """Say that there is no such command, and the way out."""
    return (
        f"There is no command {command.name}; /help lists those there are. Nothing was sent. To send "
        "it to the agent as it is, begin with a space."
    )
