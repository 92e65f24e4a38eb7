"""Fold stored logs as an agent does, and check GUARANTEES 3: every replay gives the same state."""

from collections.abc import Sequence

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState, dump_state, load_state, state_digest
from choir_common.eventlog.chain import find_break
from choir_common.wire.events import Event, Snapshot, parse_payload


def fold(events: Sequence[Event], state: SessionState | None = None) -> SessionState:
    """Fold events into a state, starting with `state` or an empty one."""
    state = state or SessionState()
    for event in events:
        committed = CommittedEvent(
            event.rev, event.hash, event.lane, event.at, parse_payload(event)
        )
        state = apply_event(state, committed)
    return state


def assert_replay_is_deterministic(events: Sequence[Event]) -> SessionState:
    """Assert that a complete log always folds to the same state, and return that state.

    Folds it twice from the beginning, once with the state serialized and read back halfway, and once from
    every snapshot event.
    """
    assert find_break(list(events)) is None
    state = fold(events)
    digest = state_digest(state)
    assert state_digest(fold(events)) == digest
    half = len(events) // 2
    assert state_digest(fold(events[half:], load_state(dump_state(fold(events[:half]))))) == digest
    for number, event in enumerate(events):
        if event.type == Snapshot.model_fields["type"].default:
            assert state_digest(fold(events[number:])) == digest, (
                f"the snapshot at {event.rev} differs"
            )
    return state
