"""What the next session may copy after a period was forgotten."""

from datetime import UTC, datetime, timedelta

from choir_common.wire.events import Event
from choir_control.agents.sessions.predecessor_log import drop_forgotten, drop_summaries
from choir_control.log.retention.reset_store import SessionReset

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_event(rev: int, minutes: int, kind: str = "user_msg", copied: int | None = None) -> Event:
    at = (NOON + timedelta(minutes=minutes)).isoformat()
    payload = {} if copied is None else {"at": (NOON + timedelta(minutes=copied)).isoformat()}
    return Event(
        session_id="s",
        rev=rev,
        lane="edge",
        type="carried_event" if copied is not None else kind,
        payload=payload,
        at=at,
        hash_prev="",
        hash="",
    )


def test_copies_are_judged_by_the_time_of_the_original() -> None:
    reset = SessionReset("rest", NOON, NOON + timedelta(minutes=10))
    events = [
        make_event(1, 30, copied=-5),
        make_event(2, 30, copied=5),
        make_event(3, 30, copied=10),
    ]
    assert [event.rev for event in drop_forgotten(events, reset)] == [1, 3]
    open_ended = SessionReset("rest", NOON)
    assert [event.rev for event in drop_forgotten(events, open_ended)] == [1]


def test_after_the_period_no_summary_of_it_is_copied() -> None:
    end = NOON + timedelta(minutes=10)
    known = [make_event(1, 11)]
    events = [
        *known,
        make_event(2, 9),
        make_event(3, 10),
        make_event(4, 11, "memory_compacted"),
        make_event(5, 12, "snapshot"),
        make_event(6, 13, "reply"),
    ]
    assert [event.rev for event in drop_summaries(events, end, known)] == [3, 6]
    assert not [*drop_summaries(events, None, known)]
