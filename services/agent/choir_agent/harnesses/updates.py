"""What a harness says and asks for, whichever protocol it speaks."""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from choir_common.errors import ChoirError
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject


class HarnessError(ChoirError):
    """The harness cannot be started, has ended, or breaks its protocol; the message says how."""

    code, status = "harness_failed", 502


@dataclass(frozen=True, slots=True)
class HarnessAbout:
    """What a harness says of itself at its start; for people only, nothing rests on it."""

    protocol_version: str
    name: str = ""
    capabilities: tuple[str, ...] = ()
    can_resume: bool = False
    """Whether it can continue a session in another process."""


@dataclass(frozen=True, slots=True)
class HarnessUsage:
    """Usage since the start of its session; None: it says nothing."""

    input_tokens: int | None = None
    """Without the cached ones."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: Decimal | None = None

    def is_below(self, other: "HarnessUsage") -> bool:
        """Return whether it counts less than an earlier report, so that it began to count again from zero."""
        pairs = ((self.cost_usd, other.cost_usd), (self.input_tokens, other.input_tokens))
        return any(new is not None and old is not None and new < old for new, old in pairs)


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of its message."""

    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call of its own that it has started or finished."""

    title: str
    status: str


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Its plan, as a whole: entries with their statuses."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to Choir, as the call of a tool; `answer` takes the result to the harness."""

    tool: str
    """Name of a tool; `permission`: the tool for permissions of this harness."""
    arguments: JsonObject
    answer: "Answer"


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The end of the work on a prompt."""

    reason: str
    """`end_turn`, `max_tokens`, `max_turn_requests`, `refusal`, `cancelled`, or `failed`."""
    text: str = ""
    """What it says about the end."""
    usage: HarnessUsage | None = None


HarnessUpdate = Said | Step | PlanReport | Asked | TurnOutcome | HarnessUsage


class Answer(Protocol):
    """Takes the result of a call to the harness that asked for it."""

    def __call__(self, result: ToolResultCommitted) -> Awaitable[None]: ...


class HarnessSession(Protocol):
    """A running harness; every method raises HarnessError."""

    @property
    def about(self) -> HarnessAbout: ...

    async def open(self, session_id: str) -> str:
        """Continue the session with that id, or start one if it is empty; return its id."""
        ...

    async def prompt(self, text: str) -> None:
        """Send an instruction, which starts a turn."""
        ...

    async def next_update(self) -> HarnessUpdate:
        """Return what it says or asks for next."""
        ...

    async def wait_for_more(self) -> bool:
        """Wait until it has written a message; False at its end. A cancelled wait loses nothing."""
        ...

    async def further_update(self, within_s: float) -> HarnessUpdate | None:
        """Return what it says or asks for within some seconds; None if it does not."""
        ...

    async def cancel(self, open_requests: Iterable[Asked]) -> None:
        """Ask it to end its turn, answer its open requests as cancelled, and wait a moment."""
        ...


@dataclass(slots=True)
class UsageCounter:
    """Usage that no event has recorded yet."""

    seen: HarnessUsage = field(default_factory=HarnessUsage)
    """The newest report; a harness cannot lower its cost."""
    recorded: HarnessUsage = field(default_factory=HarnessUsage)
    _is_resumed: bool = False

    def resume(self, recorded: HarnessUsage) -> None:
        """Go on after what an earlier process has recorded of the session."""
        self.seen = self.recorded = recorded
        self._is_resumed = True

    def note(self, usage: HarnessUsage) -> None:
        """Take a report: tokens and cost may come in different ones."""
        if self._is_resumed and usage.is_below(self.recorded):
            # it counts from the moment at which it continued the session
            self.seen = self.recorded = HarnessUsage()
        before = self.seen
        costs = [cost for cost in (before.cost_usd, usage.cost_usd) if cost is not None]
        tokens = before if usage.input_tokens is None else usage
        self.seen = HarnessUsage(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            reasoning_tokens=tokens.reasoning_tokens,
            cached_tokens=tokens.cached_tokens,
            cache_write_tokens=tokens.cache_write_tokens,
            cost_usd=max(costs, default=None),
        )

    def take(self) -> HarnessUsage:
        """Return what was reported since the last call, and count it as recorded."""
        new, old = self.seen, self.recorded
        self.recorded, self._is_resumed = new, False
        cost = None if new.cost_usd is None else new.cost_usd - (old.cost_usd or Decimal(0))
        # No report in between: nothing is known of what was used.
        if new.input_tokens is None or new == old:
            return HarnessUsage(cost_usd=None if new == old else cost)
        return HarnessUsage(
            input_tokens=max(0, new.input_tokens - (old.input_tokens or 0)),
            output_tokens=max(0, new.output_tokens - old.output_tokens),
            reasoning_tokens=max(0, new.reasoning_tokens - old.reasoning_tokens),
            cached_tokens=max(0, new.cached_tokens - old.cached_tokens),
            cache_write_tokens=max(0, new.cache_write_tokens - old.cache_write_tokens),
            cost_usd=cost,
        )
