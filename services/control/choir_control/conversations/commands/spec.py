"""Types of the command table. Pure; the rows are in `table`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from choir_common.lanes import edge_lane
from choir_common.wire.operator import CommandView
from choir_common.wire.signals import MessageSender, SignalBody
from choir_control.configuration.people import Rank
from choir_control.conversations.commands.context import CommandContext


class CommandScope(StrEnum):
    """Permission that a command requires; each level includes the previous ones."""

    DM = "dm"
    """Anyone in a configured conversation, for the agent it is bound to."""
    ADMIN = "admin"
    """Users of an admin conversation, for every agent."""
    OPERATOR = "operator"
    """Only choirctl and `/v1`, for input or output that does not fit into a conversation."""


class ArgumentKind(StrEnum):
    """Type of an argument."""

    AGENT = "agent"
    """An agent's name; in a regular conversation it must be omitted or name the bound agent."""
    WORD = "word"
    COUNT = "count"
    TEXT = "text"
    """The rest of the message, verbatim; last argument only."""
    SETTINGS = "settings"
    """Any number of `name=value`; last argument only."""


@dataclass(frozen=True, slots=True)
class CommandArgument:
    """One argument of a typed command."""

    name: str
    kind: ArgumentKind = ArgumentKind.WORD
    required: bool = False

    @property
    def usage(self) -> str:
        """Return the argument's notation in a usage line."""
        if self.kind is ArgumentKind.SETTINGS:
            return "[name=value …]"
        return f"<{self.name}>" if self.required else f"[{self.name}]"


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A parsed command: arguments, conversation and permission."""

    dm: str
    is_admin: bool
    bound_agent_id: str | None
    """The agent bound to the conversation, or else the agent that has it as its default."""
    session_id: str | None
    """The live session of the conversation."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    reply_to: str | None = None
    """Channel id of the message that the command replies to."""
    home_dm: str | None = None
    """The home conversation of the session, or of its agent if the agent does not run."""
    rank: Rank = "user"
    """What the user may do."""
    sender: MessageSender | None = None
    """The user, as agents are told."""

    @property
    def further_dm(self) -> str | None:
        """Return the conversation if it is not the home conversation of its session; else None."""
        return None if self.home_dm in (None, self.dm) else self.dm

    @property
    def decided_by(self) -> str:
        """Return who decides, for the record: the conversation, and in a group its user."""
        in_group = self.sender is not None and self.sender.is_in_group
        return f"dm {self.dm}, {self.sender.label}" if self.sender and in_group else f"dm {self.dm}"

    @property
    def lane(self) -> str:
        """Return the edge lane of the conversation."""
        return edge_lane(self.dm, self.home_dm or self.dm)


class CommandFunction(Protocol):
    """A function of the command table: executes a command and returns the text for the user."""

    async def __call__(self, context: CommandContext, call: CommandCall, /) -> str: ...


class CommandCheck(Protocol):
    """A function of the command table: raises a ChoirError when a signal would have no effect."""

    async def __call__(self, context: CommandContext, call: CommandCall, /) -> None: ...


class SignalFactory(Protocol):
    """A function of the command table: makes the signal of a command."""

    def __call__(self, call: CommandCall, /) -> SignalBody: ...


@dataclass(frozen=True, slots=True)
class SignalAction:
    """A command that becomes a signal of the bound session, stored in one statement with the message."""

    make_signal: SignalFactory
    check: CommandCheck | None = None
    """Raises a ChoirError when the session cannot execute it; then no signal is stored."""


@dataclass(frozen=True, slots=True)
class QueryAction:
    """A read-only command; a repeated message runs it again."""

    run: CommandFunction


@dataclass(frozen=True, slots=True)
class MutationAction:
    """A command that changes something; a repeated message has no effect."""

    run: CommandFunction
    confirm: CommandFunction | None = None
    """Returns a confirmation question, for a destructive command; None: executed at once."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command of the table."""

    summary: str
    scope: CommandScope = CommandScope.DM
    typed_form: str | None = None
    """The command as typed in a conversation; None for operator commands."""
    arguments: tuple[CommandArgument, ...] = ()
    action: SignalAction | QueryAction | MutationAction | None = None
    """Action of the command; None for commands handled by the agent or by operators' tools."""
    choirctl: str | None = None
    """Arguments of the equivalent `choirctl` command."""
    route: str | None = None
    """Method and path of the equivalent route."""

    @classmethod
    def for_operators(cls, summary: str, choirctl: str | None, route: str | None) -> Self:
        """Return the row of a command that only choirctl and `/v1` have."""
        return cls(summary, CommandScope.OPERATOR, choirctl=choirctl, route=route)

    @property
    def name(self) -> str:
        """Return the name: the typed form, or else that of choirctl."""
        return self.typed_form or self.choirctl or self.route or ""

    @property
    def usage(self) -> str:
        """Return the usage line with all arguments."""
        return self.usage_for(is_admin=True)

    def usage_for(self, *, is_admin: bool) -> str:
        """Return the usage line in a conversation; without the agent argument in a regular one."""
        visible = (a for a in self.arguments if is_admin or a.kind is not ArgumentKind.AGENT)
        return " ".join((self.name, *(argument.usage for argument in visible)))

    def view(self, *, is_admin: bool = True) -> CommandView:
        """Return the API view of this command for an admin or a regular conversation."""
        return CommandView(
            name=self.name,
            usage=self.usage_for(is_admin=is_admin),
            summary=self.summary,
            scope=self.scope.value,
            choirctl=self.choirctl,
            route=self.route,
        )
