"""Fold stored logs as an agent does, and check GUARANTEES 3: every replay gives the same state."""

from collections.abc import Sequence

from choir_agent.log.committed import Committed
from choir_agent.log.fold import step
from choir_agent.log.state import SessionState, digest_of, dump, load
from choir_common.eventlog.chain import first_break
from choir_common.wire.events import Event, Snapshot, payload_of


def fold(events: Sequence[Event], state: SessionState | None = None) -> SessionState:
    """Fold events into a state, starting with `state` or an empty one."""
    state = state or SessionState()
    for event in events:
        committed = Committed(event.rev, event.hash, event.lane, event.at, payload_of(event))
        state = step(state, committed)
    return state


def check_replay(events: Sequence[Event]) -> SessionState:
    """Assert that a complete log always folds to the same state, and return that state.

    Folds it twice from the beginning, once with the state serialized and read back halfway, and once from
    every snapshot event.
    """
    assert first_break(list(events)) is None
    state = fold(events)
    digest = digest_of(state)
    assert digest_of(fold(events)) == digest
    half = len(events) // 2
    assert digest_of(fold(events[half:], load(dump(fold(events[:half]))))) == digest
    for number, event in enumerate(events):
        if event.type == Snapshot.model_fields["type"].default:
            assert digest_of(fold(events[number:])) == digest, (
                f"the snapshot at {event.rev} differs"
            )
    return state
