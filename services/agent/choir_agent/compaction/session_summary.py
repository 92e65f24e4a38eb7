"""Summaries of a session's conversations, made as the last step of an orderly shutdown.

They go into `session_stopped` and become part of long-term memory, each for its own conversation: no call of
the model sees two. The home conversation is first, then those with the newest messages.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.compaction.compaction_model import CompactionModel
from choir_agent.compaction.compactor import EventCommitter
from choir_agent.compaction.event_lines import render_event_lines
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_state import SessionState
from choir_agent.models.model_wrappers import MeteredCompletion
from choir_agent.settings import SettingsSource
from choir_agent.working_memory.lane_window import LaneWindow
from choir_agent.working_memory.memory_delta import extract_json
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.errors import RateLimited
from choir_common.lanes import EDGE_LANE, is_edge, is_home
from choir_common.wire.events import LaneSummary, SummaryTopic, UsageRecorded, UserMessageStarted
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.summary")

MAX_SUMMARY = 6_000
MAX_TOPIC = 2_000
MAX_TITLE = 200
MAX_TOPICS = 12
MAX_FURTHER = 4
"""Maximum further conversations with a summary: each costs a call. Memory quotes the others."""
MIN_MESSAGES = 2
"""Minimum messages of users in a further conversation; a single one is quoted as well as summed up."""
MAX_CALLS = 2
"""Maximum calls at a time: an endpoint of one's own may answer one after the other."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The summary of one conversation of a session for long-term memory."""

    text: str
    topics: tuple[SummaryTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionSummaries:
    """The summaries of a session's conversations."""

    home: SessionSummary | None = None
    further: Mapping[str, SessionSummary] = field(default_factory=dict)
    """By lane, without those that could not be made."""


class _Topic(BaseModel):
    model_config = ConfigDict(extra="ignore")
    title: str
    text: str


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    summary: str
    topics: list[_Topic] = Field(default_factory=list)


class SessionSummarizer:
    """Producer of this session's summaries."""

    def __init__(
        self,
        *,
        committer: EventCommitter,
        memory: WorkingMemory,
        model: CompactionModel,
        settings: SettingsSource,
    ) -> None:
        self._committer = committer
        self._memory = memory
        self._model = model
        self._settings = settings
        texts = files("choir_agent.compaction")
        self._instructions = texts.joinpath("session.md").read_text("utf-8").strip()

    async def summarize(self, state: SessionState) -> SessionSummaries:
        """Return the summaries that could be made in time; none without a completed turn.

        A shutdown never fails because of a missing summary.
        """
        timeout_s = self._settings.current().settings.summary_timeout_ms / 1000
        lanes = lanes_to_sum_up(state, self._memory) if state.turns_done and timeout_s else []
        deadline = asyncio.get_running_loop().time() + timeout_s
        calls = asyncio.Semaphore(MAX_CALLS)
        async with asyncio.TaskGroup() as group:
            tasks = {
                lane: group.create_task(self._summarize_lane(state, lane, calls, deadline))
                for lane in lanes
            }
        summaries = {lane: summary for lane in lanes if (summary := tasks[lane].result())}
        return SessionSummaries(summaries.pop(EDGE_LANE, None), summaries)

    async def _summarize_lane(
        self, state: SessionState, lane: str, calls: asyncio.Semaphore, deadline: float
    ) -> SessionSummary | None:
        """Return the summary of one conversation, or None after a failure."""
        try:
            async with asyncio.timeout_at(deadline), calls:
                room = self._model.context_window(lane)
                material = summary_input(state, self._memory.window(lane), room)
                async with self._model.ask(lane, self._instructions, material) as completion:
                    self._record_usage(lane, completion)
                    return parse_summary(completion.text)
        except TimeoutError:
            log.warning("session summary failed", lane=lane, reason="no response in time")
        except (BudgetExceeded, RateLimited, ModelFailed) as error:
            log.warning("session summary failed", lane=lane, error=error.message)
        return None

    def _record_usage(self, lane: str, completion: MeteredCompletion) -> None:
        usage = UsageRecorded(
            turn_id=None,
            purpose="session_summary",
            model=completion.model,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
            usage=completion.usage,
        )
        self._committer.commit(lane, usage, more_follows=True)


def lanes_to_sum_up(state: SessionState, memory: WorkingMemory) -> list[str]:
    """Return the edge lanes that get a summary: the home conversation, then the newest further ones."""
    newest: dict[str, int] = {}
    for lane in memory.lanes():
        own_events = _own_events(state, memory.window(lane)) if is_edge(lane) else []
        messages = [event.rev for event in own_events if _is_message(event)]
        is_long = len(messages) >= MIN_MESSAGES or _own_fold(state, lane) is not None
        if own_events and (is_home(lane) or is_long):
            newest[lane] = messages[-1] if messages else 0
    by_age = sorted(newest, key=lambda lane: -newest[lane])
    home = [lane for lane in by_age if is_home(lane)]
    further = [lane for lane in by_age if not is_home(lane)]
    return [*home, *further[:MAX_FURTHER]]


def _is_message(event: CommittedEvent) -> bool:
    payload = event.payload
    return isinstance(payload, UserMessageStarted) and payload.wake_up is None


def summary_input(state: SessionState, window: LaneWindow | None, room: int) -> str:
    """Return the input of the summary: the session's own events, without carried events.

    The predecessor has its own summary. Repeating its content here would give it this session's trust, and
    would keep it in memory after the predecessor is erased.
    """
    lane = window.lane if window is not None else EDGE_LANE
    summary = _own_fold(state, lane)
    earlier = summary.summary.model_dump_json() if summary is not None else "nothing"
    lines = render_event_lines(_own_events(state, window), lane, room, with_recalled=False)
    return f"What was folded earlier:\n{earlier}\n\nThe newest events:\n{lines}"


def _own_fold(state: SessionState, lane: str) -> LaneSummary | None:
    """Return the reference summary of a lane if it covers events of the session itself."""
    summary = state.summary_of(lane)
    is_own = summary is not None and summary.through_rev > _copied_through(state)
    return summary if is_own else None


def _copied_through(state: SessionState) -> int:
    # Carried events directly follow the first event.
    return state.carried + 1 if state.carried else 0


def _own_events(state: SessionState, window: LaneWindow | None) -> list[CommittedEvent]:
    """Return the session's own events in the window."""
    events = window.events(state.rev) if window is not None else ()
    return [event for event in events if event.rev > _copied_through(state)]


def parse_summary(answer: str) -> SessionSummary | None:
    """Return the summary in a model's answer; plain text becomes a summary without topics."""
    try:
        read = _Answer.model_validate_json(extract_json(answer))
    except ValidationError:
        text = answer.strip()
        return SessionSummary(text[:MAX_SUMMARY]) if text else None
    topics = tuple(
        SummaryTopic(title=topic.title.strip()[:MAX_TITLE], text=topic.text.strip()[:MAX_TOPIC])
        for topic in read.topics[:MAX_TOPICS]
        if topic.text.strip()
    )
    text = read.summary.strip()[:MAX_SUMMARY]
    return SessionSummary(text, topics) if text else None
