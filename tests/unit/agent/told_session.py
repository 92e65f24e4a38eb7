"""A session made by hand: a log, the memory it feeds, and the prompts made of it."""

from datetime import UTC, datetime

from choir_agent.log.session_log import MAX_DURABLE_BYTES, SessionLog
from choir_agent.log.session_state import SessionState
from choir_agent.prompt.event_messages import ToolNames
from choir_agent.prompt.prompt_assembler import PromptAssembler
from choir_agent.prompt.prompt_notes import LanePrompt
from choir_agent.prompt.static_prompts import StaticPrompts
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.redactor import Redactor
from choir_common.wire.events import (
    CoreStarted,
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    PromptNote,
    ReferenceSummary,
    Reply,
    ToolCall,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.model import JsonObject
from tests.support.agent_fakes import UnderscoreNames

TOOL = "choir.fs.read"


class StillClock:
    """Always noon."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class ToldSession:
    """What happened so far, event by event."""

    def __init__(
        self,
        tool_names: ToolNames = UnderscoreNames(),  # noqa: B008 - it has no state
        kept_bytes: int = MAX_DURABLE_BYTES,
    ) -> None:
        self.memory = WorkingMemory()
        self.log = SessionLog(
            "ses",
            clock=StillClock(),
            listener=self.memory,
            redactor=Redactor(),
            kept_bytes=kept_bytes,
        )
        self.assembler = PromptAssembler(
            self.memory, StaticPrompts(edge="be kind", core="be deep"), tool_names
        )

    @property
    def state(self) -> SessionState:
        return self.log.state

    def append(self, lane: str, payload: EventPayload) -> int:
        return self.log.append(lane, payload)

    def edge(self) -> LanePrompt:
        return self.assembler.edge(self.state, b"[]")

    def core(self, job_name: str) -> LanePrompt:
        return self.assembler.core(self.state, job_name, b"[]")

    def ask(self, number: int, text: str | None = None, sent: str = "") -> int:
        message = UserMessageStarted(
            turn_id=f"t{number}",
            inbox_id=f"i{number}",
            dm="d",
            text=text or f"ask {number}",
            sent=sent,
        )
        return self.append("edge", message)

    def use(
        self,
        turn_id: str,
        call_id: str,
        lane: str = "edge",
        *,
        output: JsonObject | None = None,
        with_result: bool = True,
    ) -> int:
        calls = (ToolCall(call_id=call_id, tool=TOOL, arguments='{"path":"a"}'),)
        rev = self.think(turn_id, "", lane, calls)
        if with_result:
            rev = self.result(turn_id, call_id, lane, output)
        return rev

    def think(
        self,
        turn_id: str,
        text: str,
        lane: str = "edge",
        calls: tuple[ToolCall, ...] = (),
        tokens: int = 0,
        notes: tuple[PromptNote, ...] = (),
    ) -> int:
        output = ModelOutput(
            turn_id=turn_id,
            text=text,
            tool_calls=calls,
            model="m",
            finish_reason="stop",
            prompt_tokens=tokens,
            notes=notes,
        )
        return self.append(lane, output)

    def result(
        self, turn_id: str, call_id: str, lane: str = "edge", output: JsonObject | None = None
    ) -> int:
        done = ToolResultCommitted(
            turn_id=turn_id,
            call_id=call_id,
            tool=TOOL,
            status="success",
            output=output or {"text": "a"},
        )
        return self.append(lane, done)

    def answer(self, number: int) -> int:
        words = f"reply {number}"
        self.think(f"t{number}", words)
        reply = Reply(turn_id=f"t{number}", dm="d", text=words, kind="answer", answers=f"i{number}")
        return self.append("edge", reply)

    def turn(self, number: int, calls: int = 0) -> int:
        self.ask(number)
        for call in range(calls):
            self.use(f"t{number}", f"c{number}.{call}")
        return self.answer(number)

    def start_job(self, name: str) -> int:
        started = CoreStarted(
            job_id=f"job_{name}", job_name=name, call_id="c", dm="d", task_spec=f"do {name}"
        )
        return self.append("edge", started)

    def compact(self, lane: str, through_rev: int, summary: str) -> int:
        compacted = MemoryCompacted(
            target=lane,
            through_rev=through_rev,
            delta={},
            summary=ReferenceSummary(summary=summary),
        )
        return self.append(lane, compacted)

    def again(self, from_rev: int = 1) -> "ToldSession":
        """Return the session as a restart makes it from the log's tail."""
        restored = ToldSession()
        tail = [entry.event() for entry in self.log.entries if entry.rev >= from_rev]
        restored.log.restore(tail, self.log.head)
        return restored
