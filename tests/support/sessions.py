"""Builder for session logs: hash-chained events as an agent would append them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from choir_common.eventlog.chain import LogHead, link_event
from choir_common.wire.events import (
    CarriedEvent,
    ConversationSummary,
    Event,
    EventPayload,
    Exposure,
    MemoryCompacted,
    ModelOutput,
    Reply,
    SessionStarted,
    SessionStopped,
    SummaryTopic,
    ToolCallRequested,
    ToolResultCommitted,
    ToolStatus,
    UserMessageStarted,
)
from choir_common.wire.memory_sessions import ArchivePage, SessionEnd
from choir_common.wire.model import JsonObject
from choir_common.wire.session_events import LaneSummary, ReferenceSummary

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class LogBuilder:
    """Builds a session's log, with one second between events."""

    session_id: str = "s1"
    agent_id: str = "main"
    started_at: datetime = BEGAN
    events: list[Event] = field(default_factory=list)

    def add(self, payload: EventPayload, lane: str = "edge") -> Event:
        head = LogHead(self.events[-1].rev, self.events[-1].hash) if self.events else LogHead()
        at = self.started_at + timedelta(seconds=len(self.events))
        self.events.append(link_event(head, self.session_id, lane, payload, at))
        return self.events[-1]

    def start(self) -> None:
        self.add(SessionStarted(agent_id=self.agent_id, epoch=1), "session")

    def go_on(self, earlier: "LogBuilder", *, copies: bool = True) -> None:
        """Start as the successor of another session: with its summary, or with copies of its events."""
        summary = ReferenceSummary(summary="What was.", referenced_sessions=(earlier.session_id,))
        seed = () if copies else (LaneSummary(lane="edge", summary=summary),)
        began = SessionStarted(
            agent_id=self.agent_id, epoch=1, continues=earlier.session_id, seed=seed
        )
        self.add(began, "session")
        for event in [one for one in earlier.events if copies and one.lane == "edge"]:
            self.add(
                CarriedEvent(
                    session_id=earlier.session_id,
                    rev=event.rev,
                    at=event.at,
                    event_type=event.type,
                    payload=event.payload,
                )
            )

    def fold(self) -> None:
        """Sum up all events so far in the edge lane's reference summary."""
        through = self.events[-1].rev
        summary = ReferenceSummary(summary="All of it.")
        self.add(MemoryCompacted(target="edge", through_rev=through, delta={}, summary=summary))

    def stop(
        self,
        summary: str | None = None,
        topics: Sequence[tuple[str, str]] = (),
        further: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        parts = tuple(SummaryTopic(title=title, text=text) for title, text in topics)
        others = tuple(ConversationSummary(lane=lane, summary=it) for lane, it in further.items())
        stopped = SessionStopped(reason="done", summary=summary, topics=parts, conversations=others)
        self.add(stopped, "session")

    def user(self, text: str, turn: str = "t1") -> Event:
        return self.add(
            UserMessageStarted(turn_id=turn, inbox_id=f"i{turn}", dm="console", text=text)
        )

    def reply(self, text: str, turn: str = "t1") -> Event:
        return self.add(Reply(turn_id=turn, dm="console", text=text, kind="answer"))

    def model_output(self, text: str, turn: str = "t1", lane: str = "edge") -> Event:
        output = ModelOutput(turn_id=turn, text=text, model="m", finish_reason="stop")
        return self.add(output, lane)

    def tool_call(
        self, call: str, tool: str, given: JsonObject, turn: str = "t1", lane: str = "edge"
    ) -> Event:
        request = ToolCallRequested(turn_id=turn, call_id=call, tool=tool, input=given)
        return self.add(request, lane)

    def result(
        self,
        call: str,
        tool: str,
        output: JsonObject,
        turn: str = "t1",
        lane: str = "edge",
        exposure: Exposure = "both",
        masked: bool = False,
        status: ToolStatus = "success",
    ) -> Event:
        done = ToolResultCommitted(
            turn_id=turn,
            call_id=call,
            tool=tool,
            status=status,
            output=output,
            exposure=exposure,
            masked=masked,
        )
        return self.add(done, lane)

    def tool(self, call: str, tool: str, output: JsonObject, turn: str = "t1") -> None:
        self.tool_call(call, tool, {"of": call}, turn)
        self.result(call, tool, output, turn)

    def page(self, first: int = 0, last: int | None = None, keep: int | None = None) -> ArchivePage:
        """Return events as an archive page; with `keep`, the session has ended and `keep` stay mid-term."""
        end = None
        if keep is not None:
            end = SessionEnd(
                at=self.started_at + timedelta(seconds=len(self.events)), mid_term_sessions=keep
            )
        return ArchivePage(
            agent_id=self.agent_id,
            session_id=self.session_id,
            started_at=self.started_at,
            events=tuple(self.events[first:last]),
            end=end,
        )


def conversation_log(
    session_id: str, *said: str, began: datetime = BEGAN, summary: str | None = None
) -> LogBuilder:
    """Return the log of a session in which the user sent these messages and each was answered."""
    script = LogBuilder(session_id, started_at=began)
    script.start()
    for number, text in enumerate(said):
        script.user(text, f"t{number}")
        script.reply(f"I see: {text}", f"t{number}")
    script.stop(summary)
    return script
