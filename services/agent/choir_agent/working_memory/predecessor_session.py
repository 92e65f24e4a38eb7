"""Continuation of the conversations of the previous session. Pure.

The predecessor's log is folded as after a crash. The reference summaries of its edge lanes become the seed,
and the events that their prompts still showed are copied into the new log, each in its own lane. The next
prompt of a conversation is therefore the same after a restart as after a crash.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
from pydantic import TypeAdapter, ValidationError

from choir_agent.log.committed_event import CommittedEvent, original_of
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState
from choir_agent.provenance.taint_fold import join_lanes
from choir_agent.working_memory.lane_window import LaneWindow
from choir_agent.working_memory.memory_delta import MAX_SUMMARY_BYTES
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.lanes import EDGE_LANE, edge_lane_of, is_edge
from choir_common.wire.events import (
    NON_CLOSING_KINDS,
    AttachmentsRead,
    CarriedEvent,
    Event,
    EventPayload,
    LaneSummary,
    ModelOutput,
    RemindersAdded,
    Reply,
    SessionAbandoned,
    TurnUnparked,
    UserMessageStarted,
    parse_payload,
    render_payload,
)
from choir_common.wire.model import DEFERRED, JsonObject
from choir_common.wire.provenance import LaneTaint, SessionTaint

log = structlog.get_logger("choir.agent.memory")

_EVENTS: TypeAdapter[tuple[Event, ...]] = TypeAdapter(tuple[Event, ...], config=DEFERRED)
FIRST_COPY = 2
"""Revision of the first carried event, which follows `session_started`."""
MAX_SESSIONS = 20


@dataclass(frozen=True, slots=True)
class EventCopy:
    """An event that is continued, and the edge lane to which it belongs."""

    lane: str
    event: CarriedEvent


@dataclass(frozen=True, slots=True)
class CarriedConversation:
    """The part of the predecessor that a new session continues."""

    seed: tuple[LaneSummary, ...] = ()
    copies: tuple[EventCopy, ...] = ()
    """In the order of the predecessor's log. The same log always gives the same list."""
    taint: SessionTaint | None = None
    """The origins of what is continued, and of the workspace's files."""


@dataclass(frozen=True, slots=True)
class _PastEvent:
    """An event of the predecessor, with its original session and revision."""

    event: CommittedEvent
    session_id: str
    rev: int


def load_carried_conversation(
    snapshot: JsonObject | None, continues: str | None
) -> CarriedConversation:
    """Return what to continue from the end of the predecessor's log (`events` in `snapshot`).

    An invalid log is skipped with a warning: it must not prevent the agent from starting.
    """
    if continues is None:
        return CarriedConversation()
    try:
        events = _EVENTS.validate_python((snapshot or {}).get("events") or (), strict=False)
        return _inherit(events, continues)
    except ValidationError as error:
        log.warning("cannot read the previous session's log", error=str(error)[:200])
        return CarriedConversation()


def _inherit(events: tuple[Event, ...], continues: str) -> CarriedConversation:
    state, memory, past_events = SessionState(), WorkingMemory(), list[_PastEvent]()
    for event in events:
        payload = parse_payload(event)
        committed = CommittedEvent(event.rev, event.hash, event.lane, event.at, payload)
        state = apply_event(state, committed)
        memory.on_event(committed)
        if isinstance(payload, CarriedEvent):
            original = original_of(committed, payload)
            past_events.append(_PastEvent(original, payload.session_id, payload.rev))
        else:
            past_events.append(_PastEvent(committed, event.session_id, event.rev))
    windows = [memory.window(lane) for lane in memory.lanes() if is_edge(lane)]
    visible_events = [
        entry
        for entry in past_events
        if any(window is not None and _is_shown(entry.event, window) for window in windows)
    ]
    copies = list(_copies(visible_events))
    for window in windows:
        if window is not None and (copy := _abandoned(past_events, window)) is not None:
            copies.append(copy)
    return CarriedConversation(_seed(state, continues), tuple(copies), _taint(state))


def _taint(state: SessionState) -> SessionTaint:
    """Return the taint without that of core jobs, which end with their session.

    It passes to the conversation that started the job.
    """
    lanes = {EDGE_LANE: state.taint.lane(EDGE_LANE)}
    for lane, lane_taint in state.taint.lanes.items():
        edge = state.edge_of(lane)
        lanes[edge] = join_lanes(lanes.get(edge, LaneTaint()), lane_taint)
    return state.taint.model_copy(update={"lanes": lanes})


def _is_shown(event: CommittedEvent, window: LaneWindow) -> bool:
    payload = event.payload
    if isinstance(payload, RemindersAdded | AttachmentsRead | TurnUnparked):
        # The position of a turn that was parked is part of what was shown.
        return any(turn.turn_id == payload.turn_id for turn in window.turns)
    for turn in window.turns:
        if event.rev == turn.head.rev or payload in turn.notes.descriptions:
            return True
        if any(event.rev == other.rev for step in turn.steps for other in step.events):
            return True
        # A reply that repeats the model's text is not shown, but marks the turn as answered.
        if isinstance(payload, Reply) and payload.turn_id == turn.turn_id:
            return payload.kind not in NON_CLOSING_KINDS
    return False


def _copies(entries: list[_PastEvent]) -> Iterator[EventCopy]:
    revs = [entry.event.rev for entry in entries]
    for entry in entries:
        payload: EventPayload = entry.event.payload
        if isinstance(payload, ModelOutput) and payload.read_rev:
            # Translate `read_rev` to the revisions of the copies in the new log.
            read = bisect_right(revs, payload.read_rev)
            payload = payload.model_copy(update={"read_rev": FIRST_COPY + read - 1 if read else 0})
        carried = CarriedEvent(
            session_id=entry.session_id,
            rev=entry.rev,
            at=entry.event.at,
            event_type=payload.type,
            payload=render_payload(payload),
        )
        yield EventCopy(edge_lane_of(entry.event.lane), carried)


def _abandoned(past_events: list[_PastEvent], window: LaneWindow) -> EventCopy | None:
    """Return the reply that the user got instead of an answer when control abandoned the session."""
    turn = window.turns[-1] if window.turns else None
    last = next(
        (
            entry
            for entry in reversed(past_events)
            if isinstance(entry.event.payload, SessionAbandoned)
        ),
        None,
    )
    if turn is None or last is None or not isinstance(turn.head.payload, UserMessageStarted):
        return None
    abandoned = last.event.payload
    replied = any(isinstance(e.payload, Reply) for step in turn.steps for e in step.events)
    if replied or turn.answered or not isinstance(abandoned, SessionAbandoned):
        return None
    dm = turn.head.payload.dm
    reply = Reply(turn_id=turn.turn_id, dm=dm, text=abandoned.text, kind="error")
    carried = CarriedEvent(
        session_id=last.session_id,
        rev=last.rev,
        at=last.event.at,
        event_type=reply.type,
        payload=render_payload(reply),
    )
    return EventCopy(window.lane, carried)


def _seed(state: SessionState, continues: str) -> tuple[LaneSummary, ...]:
    return tuple(
        _inherited_summary(before, state, continues)
        for before in state.summaries
        if is_edge(before.lane)
    )


def _inherited_summary(before: LaneSummary, state: SessionState, continues: str) -> LaneSummary:
    old, sessions = before.summary, before.summary.referenced_sessions
    if before.through_rev:
        # Events of these sessions may have been folded: the predecessor's own and carried ones.
        session_ids = dict.fromkeys((*sessions, *state.carried_from, continues))
        sessions = tuple(session_ids)[-MAX_SESSIONS:]
    summary = old.model_copy(update={"referenced_sessions": sessions})
    if len(summary.model_dump_json().encode()) > MAX_SUMMARY_BYTES:
        summary = summary.model_copy(update={"facts": (), "referenced_events": ()})
    # Revisions refer to the predecessor's log, so the summary covers no event of the new log.
    return LaneSummary(lane=before.lane, summary=summary, through_rev=0)
