"""Working memory: one window per lane, what rolls off and what never does, rebuilt after a restart."""

from hypothesis import given
from hypothesis import strategies as st

from choir_agent.compaction.compaction_plan import WindowLimits, fold_through, window_limits
from choir_agent.log.session_state import state_digest
from choir_agent.working_memory.token_estimator import TokenEstimator, prompt_size
from choir_agent.working_memory.working_memory import SnapshotWriter
from choir_common.wire.events import (
    CoreStopped,
    MemoryCompacted,
    ReferenceSummary,
    SessionStarted,
    SessionStopped,
)
from choir_models.model import Prompt
from tests.unit.agent.told_session import ToldSession

ROOMY = 1_000_000


def words(prompt: Prompt) -> str:
    return b"\n".join(prompt.messages).decode()


def limits(events: int, size: int = ROOMY) -> WindowLimits:
    return WindowLimits(events, size, 2 * size)


def fold_when_full(session: ToldSession, lane: str, allowed: WindowLimits) -> int | None:
    window = session.memory.window(lane)
    assert window is not None
    through = fold_through(window, allowed, "full")
    if through is not None:
        session.compact(lane, through, f"through {through}")
    return through


def test_a_full_window_is_folded_down_to_half_in_whole_turns() -> None:
    session = ToldSession()
    for number in range(6):
        session.turn(number)
    assert fold_when_full(session, "edge", limits(12)) is None
    session.turn(6)
    fold_when_full(session, "edge", limits(12))
    shown = words(session.edge())
    assert [number for number in range(7) if f'"ask {number}"' in shown] == [4, 5, 6]


def test_the_newest_message_and_the_last_answer_never_roll_off() -> None:
    session = ToldSession()
    session.turn(1)
    session.ask(2)
    for call in range(30):
        session.use("t2", f"c{call}", output={"text": "x" * 1_000})
    window = session.memory.window("edge")
    assert window is not None
    for why in ("full", "asked", "overflow"):
        through = fold_through(window, limits(4, 100), why)
        if through is not None:
            session.compact("edge", through, "short")
    shown = words(session.edge())
    assert '"ask 1"' in shown and '"reply 1"' in shown and '"ask 2"' in shown
    assert '"c29"' in shown and '"c0"' not in shown


def test_a_turn_too_long_for_the_model_gives_up_its_oldest_steps_only() -> None:
    session = ToldSession()
    session.ask(1)
    for call in range(20):
        session.use("t1", f"c{call}", output={"text": "x" * 1_000})
    assert fold_when_full(session, "edge", limits(200, 8_000))
    shown = words(session.edge())
    assert '"ask 1"' in shown and '"c0"' not in shown and '"c19"' in shown
    assert len(shown) < 8_000


def test_a_core_job_keeps_its_briefing_and_its_newest_steps() -> None:
    session = ToldSession()
    session.start_job("fix")
    for call in range(10):
        session.use("job_fix", f"c{call}", "core:fix")
    assert fold_when_full(session, "core:fix", limits(12))
    shown = words(session.core("fix"))
    assert "do fix" in shown and '"c9"' in shown and '"c0"' not in shown


def test_one_lanes_compaction_leaves_the_other_as_it_is() -> None:
    session = ToldSession()
    session.turn(1)
    session.start_job("fix")
    session.use("job_fix", "c1", "core:fix")
    before = session.edge()
    through = session.use("job_fix", "c2", "core:fix")
    session.compact("core:fix", through - 2, "short")
    assert session.edge() == before
    assert '"c1"' not in words(session.core("fix"))


def test_what_came_while_the_compaction_was_under_way_stays() -> None:
    session = ToldSession()
    through = session.turn(1)
    session.turn(2)
    session.turn(3)
    session.compact("edge", through, "first")
    shown = words(session.edge())
    assert "reply 1" not in shown and "ask 2" in shown and "ask 3" in shown


def test_a_jobs_window_goes_with_the_job() -> None:
    session = ToldSession()
    session.start_job("fix")
    session.append("core:fix", CoreStopped(job_id="job_fix", job_name="fix", outcome="completed"))
    assert session.memory.lanes() == ("edge",)


STEPS = st.lists(
    st.sampled_from(["turn", "tool", "job", "step", "end", "fold edge", "fold core", "snapshot"]),
    max_size=40,
)


@given(steps=STEPS)
def test_a_tail_from_the_newest_snapshot_gives_the_same_prompts_and_state(steps: list[str]) -> None:
    session = ToldSession()
    session.append("session", SessionStarted(agent_id="a", epoch=1))
    snapshots = SnapshotWriter(session.memory, every=1)
    window_from = 1
    open_job, jobs = "", 0
    for number, step in enumerate(steps):
        match step:
            case "turn":
                session.turn(number)
            case "tool":
                session.turn(number, calls=2)
            case "job" if not open_job:
                jobs += 1
                open_job = f"j{jobs}"
                session.start_job(open_job)
            case "step" if open_job:
                session.use(f"job_{open_job}", f"c{number}", f"core:{open_job}")
            case "end" if open_job:
                stopped = CoreStopped(
                    job_id=f"job_{open_job}", job_name=open_job, outcome="completed"
                )
                session.append(f"core:{open_job}", stopped)
                open_job = ""
            case "fold edge":
                fold_when_full(session, "edge", limits(6))
            case "fold core" if open_job:
                fold_when_full(session, f"core:{open_job}", limits(4))
            case "snapshot":
                snapshots.follow(session.log)
                newest = session.log.entries[-1].event()
                if newest.type == "snapshot":
                    window_from = int(str(newest.payload["window_from"]))
    again = session.again(window_from)
    assert again.edge() == session.edge()
    assert again.memory.lanes() == session.memory.lanes()
    if open_job:
        assert again.core(open_job) == session.core(open_job)
    assert state_digest(again.state) == state_digest(session.state)


def test_a_snapshot_is_made_every_so_many_events_and_never_after_the_end() -> None:
    session = ToldSession()
    snapshots = SnapshotWriter(session.memory, every=10)
    made: list[int] = []
    for number in range(12):
        session.turn(number)
        snapshots.follow(session.log)
        newest = session.log.entries[-1]
        if newest.event().type == "snapshot":
            made.append(newest.rev)
    assert made == [13, 26, 39]
    session.append("session", SessionStopped(reason="x"))
    for _ in range(20):
        session.ask(99)
    snapshots.follow(session.log)
    assert session.log.entries[-1].event().type == "user_msg"


def test_the_providers_own_count_corrects_the_estimate() -> None:
    meter = TokenEstimator()
    assert meter.tokens("edge", 1_000) == 500
    meter.record_prompt_size("edge", 1_000)
    meter.record_token_count("edge", 240)
    assert meter.tokens("edge", 1_000) == 240
    assert meter.tokens("edge", 1_100) == 290
    assert meter.tokens("edge", 500) == 120
    assert meter.size_of("edge", 240) == 1_000
    meter.record_token_count("core:a", 7)
    assert meter.tokens("core:a", 10) == 5


def test_before_anything_was_counted_two_bytes_are_a_token() -> None:
    prompt = Prompt((b"x" * 99,), b"[]")
    assert TokenEstimator().tokens("edge", prompt_size(prompt)) == 51


def test_limits_leave_room_for_what_is_never_compacted() -> None:
    assert window_limits(50, 0.8, 100_000, 20_000) == WindowLimits(50, 64_000, 70_000)


def test_a_failed_or_late_compaction_takes_nothing_out_of_a_window() -> None:
    session = ToldSession()
    session.turn(1)
    newer = session.turn(2)
    session.turn(3)
    session.ask(4)
    failed = MemoryCompacted(
        target="edge", through_rev=newer, delta={}, summary=ReferenceSummary(), failed="no json"
    )
    before = session.edge()
    session.append("edge", failed)
    assert session.edge() == before
    session.compact("edge", newer, "two turns")
    session.answer(4)
    session.turn(5)
    session.compact("edge", newer - 3, "two turns")
    # the third turn was kept as the last answer then, and is not taken now
    assert '"ask 3"' in words(session.edge())
