"""An agent's memory does not grow with the length of its session."""

import gc
import tracemalloc

from choir_agent.log.session_log import RecentIds, SessionLog
from choir_common.wire.events import Reply, UserMessageStarted
from tests.support.agent_fakes import silent_log
from tests.unit.agent.told_session import ToldSession

KEPT = 50_000
WORDS = "what was said in this message, word by word; " * 20


def say(log: SessionLog, number: int) -> None:
    """Append a message with its answer."""
    inbox_id = f"i{number}"
    log.append("edge", UserMessageStarted(turn_id="t", inbox_id=inbox_id, dm="d", text=WORDS))
    log.append("edge", Reply(turn_id="t", dm="d", text=WORDS, kind="answer", answers=inbox_id))


def test_a_thousand_durable_messages_leave_no_more_than_the_bound() -> None:
    log = silent_log(kept_bytes=KEPT)
    written = 0
    for number in range(1_000):
        before = len(log.entries)
        say(log, number)
        written += sum(len(entry.wire) for entry in log.entries[before:])
        log.drop_durable(log.head.rev)
    kept = sum(len(entry.wire) for entry in log.entries)
    assert written > 40 * KEPT
    assert 0 < kept <= KEPT
    assert [entry.rev for entry in log.entries][-1] == log.head.rev == 2_000
    newest = log.events_after(1_990, 100, 1_000_000)
    assert [entry.rev for entry in newest] == list(range(1_991, 2_001))


def test_what_control_has_not_stored_yet_stays_whatever_its_size() -> None:
    log = silent_log(kept_bytes=1)
    for number in range(10):
        say(log, number)
    log.drop_durable(4)
    assert [entry.rev for entry in log.entries] == list(range(5, 21))
    assert [entry.rev for entry in log.events_after(4, 3, 1_000_000)] == [5, 6, 7]
    log.drop_durable(20)
    assert log.entries == [] and log.events_after(20, 3, 1_000_000) == ()


def test_a_restored_tail_is_cut_to_the_same_bound() -> None:
    log = silent_log()
    for number in range(100):
        say(log, number)
    again = silent_log(kept_bytes=KEPT)
    again.restore([entry.event() for entry in log.entries], log.head)
    assert sum(len(entry.wire) for entry in again.entries) <= KEPT
    assert again.head == log.head and again.state == log.state
    assert "i0" in again.taken_inbox_ids and "i99" in again.taken_inbox_ids


def test_a_bounded_set_of_ids_forgets_the_oldest_alone() -> None:
    ids = RecentIds(max_ids=3)
    for one in ("a", "b", "a", "c", "d"):
        ids.add(one)
    assert [one in ids for one in "abcd"] == [False, True, True, True]


def test_a_session_of_compacted_turns_takes_the_same_memory_at_any_length() -> None:
    session = ToldSession(kept_bytes=KEPT)

    def talk(first: int, last: int) -> int:
        for number in range(first, last):
            through = session.turn(number, calls=1)
            session.log.drop_durable(session.log.head.rev)
            if number % 25 == 0:
                session.compact("edge", through, "they talked")
                session.edge()
        gc.collect()  # when cycles are collected depends on the interpreter alone
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        talk(0, 200)
        before = talk(200, 301)
        after = talk(301, 1_301)
    finally:
        tracemalloc.stop()
    # the log of those thousand turns alone has more than two million bytes
    assert session.log.head.rev > 6_000
    assert after - before < 300_000
