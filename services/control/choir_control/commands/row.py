"""What a row of the command table is made of. Pure; the rows themselves stand in `table`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from choir_common.wire.operator import CommandView
from choir_common.wire.signals import SignalBody
from choir_control.commands.hands import Hands


class Scope(StrEnum):
    """Who may give a command; each includes those before it (spec 19.1)."""

    DM = "dm"
    """Anybody in a configured conversation, for the agent it is bound to."""
    ADMIN = "admin"
    """Who speaks in an admin conversation, for every agent."""
    OPERATOR = "operator"
    """Only choirctl and `/v1`: what it takes or shows has no place in a conversation."""


class Kind(StrEnum):
    """What an argument is."""

    AGENT = "agent"
    """An agent's name; a regular conversation has no choice, so it may leave it out only."""
    WORD = "word"
    COUNT = "count"
    TEXT = "text"
    """All that is left, as it was typed; only as the last."""
    SETTINGS = "settings"
    """`name=value` as often as wanted; only as the last."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a typed command."""

    name: str
    kind: Kind = Kind.WORD
    required: bool = False

    @property
    def usage(self) -> str:
        """Return how it is written."""
        if self.kind is Kind.SETTINGS:
            return "[name=value …]"
        return f"<{self.name}>" if self.required else f"[{self.name}]"


@dataclass(frozen=True, slots=True)
class Call:
    """A command with its arguments, and who gave it where."""

    dm: str
    is_admin: bool
    bound: str | None
    """The agent of the conversation: the one that holds it, else the one whose default it is."""
    session_id: str | None
    """The live session of the conversation."""
    values: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    reply_to: str | None = None
    """The channel's id of the message that it replies to."""


Handler = Callable[[Hands, Call], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Tell:
    """Becomes a signal of the session that holds the conversation, stored with the message itself."""

    signal: Callable[[Call], SignalBody]
    check: Callable[[Hands, Call], Awaitable[None]] | None = None
    """Raises a ChoirError when the session cannot do it; then nothing is told."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Only looks: asked again, it looks again."""

    answer: Handler


@dataclass(frozen=True, slots=True)
class Act:
    """Changes something: a repetition of the same message does nothing."""

    act: Handler
    question: Handler | None = None
    """Asks back what a yes would destroy; without one it is done at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A command, once."""

    summary: str
    scope: Scope = Scope.DM
    typed: str | None = None
    """How it is typed in a conversation; none for those of operators only."""
    arguments: tuple[Argument, ...] = ()
    does: Tell | Ask | Act | None = None
    """None for what goes to the agent itself, and for those of operators only."""
    choirctl: str | None = None
    """The words after `choirctl` that do the same."""
    route: str | None = None
    """The route that does the same: method and path."""

    @property
    def name(self) -> str:
        """Return what it is called: as typed, else choirctl's words."""
        return self.typed or self.choirctl or self.route or ""

    @property
    def usage(self) -> str:
        """Return how it is written, with its arguments."""
        return self.usage_for(is_admin=True)

    def usage_for(self, *, is_admin: bool) -> str:
        """Return how it is written in a conversation; a regular one names no agent."""
        shown = (a for a in self.arguments if is_admin or a.kind is not Kind.AGENT)
        return " ".join((self.name, *(argument.usage for argument in shown)))

    def view(self, *, is_admin: bool = True) -> CommandView:
        """Return what is served of it, as one may type it who is an admin or not."""
        return CommandView(
            name=self.name,
            usage=self.usage_for(is_admin=is_admin),
            summary=self.summary,
            scope=self.scope.value,
            choirctl=self.choirctl,
            route=self.route,
        )
