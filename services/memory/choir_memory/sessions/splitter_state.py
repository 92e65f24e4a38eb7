"""State of a session's splitter between two pages of its log: what has begun and is not finished. Pure."""

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from choir_common.lanes import dm_of, edge_lane_of, is_core, is_edge
from choir_memory.documents.model import Conversations
from choir_memory.sessions.failure_tracker import FailureTrackerState
from choir_memory.sessions.lane_trust import FULL_TRUST
from choir_memory.sessions.trust import Inherited


@dataclass(slots=True)
class ToolRun:
    """Tool calls of one turn, in one lane and one phase of a skill."""

    turn_id: str
    phase: str
    first_rev: int
    last_rev: int
    at: str
    ended_at: str
    lines: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    chars: int = 0
    calls: int = 0
    outside: bool = False
    trust: int = FULL_TRUST
    """The least trust of the lane while the calls were made; states of older versions lack it."""


@dataclass(slots=True)
class SplitterState:
    """State of what the events so far have started and not finished."""

    next_index: int = 0
    runs: dict[str, ToolRun] = field(default_factory=dict)
    """Open runs by lane."""
    phases: dict[str, str] = field(default_factory=dict)
    """Skill and state of each lane."""
    sources: dict[str, int] = field(default_factory=dict)
    """The least trust of what a turn or job has read, by its id."""
    reminded: list[str] = field(default_factory=list)
    """Turns in which memory was shown: their replies may repeat it."""
    following: FailureTrackerState = field(default_factory=FailureTrackerState)
    inherited: Inherited = field(default_factory=Inherited)
    lane_trust: dict[str, int] = field(default_factory=dict)
    """The least trust of what each lane has read; states of older versions lack it."""
    edge_by_job: dict[str, str] = field(default_factory=dict)
    """The lane of the conversation that started each open job; states of older versions lack it."""
    home_dm: str = ""
    """The home conversation; states of older versions lack it."""
    dm_by_core: dict[str, str] = field(default_factory=dict)
    """The conversation of the newest jobs, by lane; also of ended ones, whose last events may follow."""

    @property
    def edge_trust(self) -> int:
        """The least trust of what the edge lanes have read."""
        trusts = (trust for lane, trust in self.lane_trust.items() if is_edge(lane))
        return min(trusts, default=FULL_TRUST)

    def conversations_of(self, lane: str) -> Conversations:
        """Return the conversation of a lane, or of the lane that started it; None if it is unknown."""
        dm = self.dm_by_core.get(lane)
        if not dm:
            edge = self.edge_by_job.get(lane) if is_core(lane) else edge_lane_of(lane)
            dm = dm_of(edge, self.home_dm) if edge else None
        return (dm,) if dm else None


_UNSETTLED: TypeAdapter[SplitterState] = TypeAdapter(SplitterState)


def parse_state(text: str) -> SplitterState:
    """Parse the JSON of `render_state`; `{}` is the initial state."""
    return _UNSETTLED.validate_json(text)


def render_state(unsettled: SplitterState) -> str:
    """Return the state as JSON."""
    return _UNSETTLED.dump_json(unsettled).decode()
