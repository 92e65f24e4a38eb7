"""Summary of a session, made as the last step of an orderly shutdown.

The result goes into `session_stopped` and becomes part of long-term memory.
"""

import asyncio
from dataclasses import dataclass
from importlib.resources import files

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.compaction.compaction_model import CompactionModel
from choir_agent.compaction.compactor import EventCommitter
from choir_agent.compaction.event_lines import render_event_lines
from choir_agent.log.session_state import SessionState
from choir_agent.models.model_wrappers import MeteredCompletion
from choir_agent.settings import SettingsSource
from choir_agent.working_memory.lane_window import LaneWindow
from choir_agent.working_memory.memory_delta import extract_json
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.errors import RateLimited
from choir_common.lanes import EDGE_LANE
from choir_common.wire.events import SummaryTopic, UsageRecorded
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.summary")

MAX_SUMMARY = 6_000
MAX_TOPIC = 2_000
MAX_TITLE = 200
MAX_TOPICS = 12


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The summary of a session for long-term memory."""

    text: str
    topics: tuple[SummaryTopic, ...] = ()


class _Topic(BaseModel):
    model_config = ConfigDict(extra="ignore")
    title: str
    text: str


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    summary: str
    topics: list[_Topic] = Field(default_factory=list)


class SessionSummarizer:
    """Producer of this session's summary."""

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

    async def summarize(self, state: SessionState) -> SessionSummary | None:
        """Return the summary, or None without a completed turn, or after a failure or timeout.

        A shutdown never fails because of a missing summary.
        """
        timeout_s = self._settings.current().settings.summary_timeout_ms / 1000
        if not state.turns_done or not timeout_s:
            return None
        try:
            async with asyncio.timeout(timeout_s):
                room = self._model.context_window(EDGE_LANE)
                material = summary_input(state, self._memory.window(EDGE_LANE), room)
                async with self._model.ask(EDGE_LANE, self._instructions, material) as completion:
                    self._record_usage(completion)
                    return parse_summary(completion.text)
        except TimeoutError:
            log.warning("session summary failed", reason=f"no response within {timeout_s:g} s")
        except (BudgetExceeded, RateLimited, ModelFailed) as error:
            log.warning("session summary failed", error=error.message)
        return None

    def _record_usage(self, completion: MeteredCompletion) -> None:
        usage = UsageRecorded(
            turn_id=None,
            purpose="session_summary",
            model=completion.model,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
            usage=completion.usage,
        )
        self._committer.commit(EDGE_LANE, usage, more_follows=True)


def summary_input(state: SessionState, window: LaneWindow | None, room: int) -> str:
    """Return the input of the summary: the session's own events, without carried events.

    The predecessor has its own summary. Repeating its content here would give it this session's trust, and
    would keep it in memory after the predecessor is erased.
    """
    # Carried events directly follow the first event.
    copied_through = state.carried + 1 if state.carried else 0
    summary = state.summary_of(EDGE_LANE)
    folded = summary is not None and summary.through_rev > copied_through
    earlier = summary.summary.model_dump_json() if summary is not None and folded else "nothing"
    events = window.events(state.rev) if window is not None else ()
    own = [event for event in events if event.rev > copied_through]
    lines = render_event_lines(own, EDGE_LANE, room, with_recalled=False)
    return f"What was folded earlier:\n{earlier}\n\nThe newest events:\n{lines}"


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
