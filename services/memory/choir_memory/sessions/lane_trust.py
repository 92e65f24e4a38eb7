"""Least trust of what each lane of a session has read, across turns and jobs: pure.

The agent folds the same events into the origins that its lanes hold (docs/design/provenance.md). Memory
needs the trust only: what an agent says later in such a lane may repeat what the lane has read.
`tests/contract/test_lane_trust.py` compares both folds.
"""

from collections.abc import Iterator

from choir_common.eventlog.tool_results import (
    OUTSIDE_OUTPUT,
    OWN_OUTPUT,
    SOURCE_BY_TOOL,
    TOOL_OUTPUT,
    question_trust,
    returns_outside_text,
)
from choir_common.lanes import core_lane, edge_lane_of
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    CoreStopped,
    EventPayload,
    InjectedInstruction,
    MemoryCompacted,
    RemindersAdded,
    Reply,
    SessionStarted,
    ToolResultCommitted,
    UserMessageStarted,
)

FULL_TRUST = 100
"""Trust of a lane that has read nothing from outside."""


class LaneTrust:
    """The least trust of each lane.

    `by_lane` and `edge_by_job` are part of the splitter's state and are changed in place. The second is the
    lane of the conversation that started each job, by the job's lane.
    """

    def __init__(self, by_lane: dict[str, int], edge_by_job: dict[str, str] | None = None) -> None:
        self._by_lane = by_lane
        self._edge_by_job = {} if edge_by_job is None else edge_by_job

    def of(self, lane: str) -> int:
        """Return the least trust of what a lane has read."""
        return self._by_lane.get(lane, FULL_TRUST)

    def take(self, lane: str, payload: EventPayload) -> None:
        """Process one event of a lane."""
        match payload:
            case SessionStarted(taint=taint) if taint is not None:
                for name, lane_taint in taint.lanes.items():
                    self._lower(name, lane_taint.trust)
            case MemoryCompacted(target=target, taint=taint) if taint is not None:
                self._lower(target, taint.trust)
            case CoreStarted(job_name=name):
                self._by_lane.pop(core_lane(name), None)
                self._edge_by_job[core_lane(name)] = edge_lane_of(lane)
                self._lower(core_lane(name), self.of(edge_lane_of(lane)))
            case InjectedInstruction(target=target, by="edge"):
                self._lower(target, self.of(edge_lane_of(lane)))
            case Reply(from_lane=source) if source:
                self._lower(edge_lane_of(lane), self.of(source))
            case CoreReported(job_name=name):
                edge = self._edge_by_job.get(core_lane(name), edge_lane_of(lane))
                self._lower(edge, self.of(core_lane(name)))
            case CoreStopped(job_name=name):
                edge = self._edge_by_job.pop(core_lane(name), edge_lane_of(lane))
                self._lower(edge, self._by_lane.pop(core_lane(name), FULL_TRUST))
            case InjectedInstruction(by="user") | RemindersAdded() | UserMessageStarted():
                self._lower(edge_lane_of(lane), min(_trusts_read(payload), default=FULL_TRUST))
            case ToolResultCommitted():
                self._lower(lane, min(_trusts_read(payload), default=FULL_TRUST))
            case _:
                pass

    def _lower(self, lane: str, trust: int) -> None:
        if trust < self.of(lane):
            self._by_lane[lane] = trust


def _trusts_read(payload: EventPayload) -> Iterator[int]:
    """Yield the trust of each text from outside that an event brings in."""
    match payload:
        case RemindersAdded(reminders=reminders):
            yield from (r.trust for r in reminders if r.trust < OWN_OUTPUT.trust)
        case InjectedInstruction(speaker=speaker):
            if speaker is not None and speaker.is_outsider:
                yield OUTSIDE_OUTPUT.trust
        case UserMessageStarted(wake_up=wake_up, attachments=attachments, speaker=speaker):
            if speaker is not None and speaker.is_outsider:
                yield OUTSIDE_OUTPUT.trust
            if wake_up is not None and wake_up.by_agent:
                yield TOOL_OUTPUT.trust
            if wake_up is not None and wake_up.question is not None:
                yield question_trust(wake_up.question)
            elif wake_up is not None and wake_up.outside:
                yield OUTSIDE_OUTPUT.trust
            if any(file.transcription is None for file in attachments):
                yield TOOL_OUTPUT.trust
        case ToolResultCommitted(provenance=provenance) if provenance is not None:
            yield from (source.trust for source in provenance.outside)
        case ToolResultCommitted() if _may_be_from_outside(payload):
            yield OUTSIDE_OUTPUT.trust
        case _:
            return


def _may_be_from_outside(result: ToolResultCommitted) -> bool:
    """Return whether a result without provenance may be from outside: interrupted, or of an older version."""
    if result.status == "refused":
        return False
    if result.status == "interrupted" and result.tool not in SOURCE_BY_TOOL:
        return True
    return returns_outside_text(result.tool, result.output)
