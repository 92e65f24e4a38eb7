"""Whatever models, tools, people and crashes do, each message is closed once, each core job ends once and is
reported once, and the log folds to the same state from any place (GUARANTEES 1, 2, 3).

The lanes' decisions are walked over random sessions, in which a crash may cut the log anywhere after what
was durable.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import assert_never

from hypothesis import given, settings
from hypothesis import strategies as st

from choir_agent.lanes.core_job_moves import (
    CompleteJob,
    EndJob,
    RequestCorrection,
    WaitForInfo,
    next_core_move,
)
from choir_agent.lanes.turn_moves import (
    CallModel,
    CancelTurn,
    EmptyAnswer,
    RunTools,
    SendAnswer,
    TurnLimitReached,
    next_turn_move,
)
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import (
    CallStage,
    CallState,
    JobState,
    SessionState,
    TurnState,
    dump_state,
    load_state,
    state_digest,
)
from choir_common.lanes import EDGE_LANE
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    Cancelled,
    CoreOutcome,
    CoreReported,
    CoreStarted,
    CoreStopped,
    EventPayload,
    InjectedInstruction,
    ModelOutput,
    Reply,
    ReportBegun,
    SessionResumed,
    SessionStarted,
    Snapshot,
    ToolCall,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
    parse_payload,
    render_payload,
)
from choir_common.wire.events import Event as WireEvent
from tests.support.state_machines import example_count

BUDGETS = Budgets(
    max_steps_per_turn=4,
    max_tool_calls_per_turn=5,
    per_job_max_steps=4,
    per_job_max_tool_calls=5,
    per_job_wall_time_ms=60_000,
)
START = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
NAMES = ("one", "two", "three")
CLOSING = ("answer", "error")
CUT = 0.2
LOOK_EVERY = 7


@dataclass
class Ids:
    """Names that never come twice, also when a crash has cut off who had them."""

    used: Counter[str] = field(default_factory=Counter)

    def new(self, kind: str) -> str:
        self.used[kind] += 1
        return f"{kind}_{self.used[kind]}"


class Session:
    """One session, driven by its lanes' own decisions."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.log: list[CommittedEvent] = []
        self.state = SessionState()
        self.durable = 0
        self.ids = Ids()
        self.now = START
        self.asked: list[str] = []
        self.commit("session", SessionStarted(agent_id="main", epoch=1))

    def commit(self, lane: str, payload: EventPayload) -> None:
        event = CommittedEvent(len(self.log) + 1, "", lane, self.now.isoformat(), payload)
        self.log.append(event)
        self.state = apply_event(self.state, event)

    # what comes from outside

    def ask(self) -> None:
        self.asked.append(self.ids.new("inb"))

    def wait(self) -> None:
        self.now += timedelta(seconds=self.random.randint(1, 20))

    def cancel_job(self) -> None:
        for job in self.random.sample(self.state.jobs, min(1, len(self.state.jobs))):
            self.commit(EDGE_LANE, Cancelled(target=job.lane, turn_id=job.turn_id, by="user"))

    def inject_job(self) -> None:
        for job in self.random.sample(self.state.jobs, min(1, len(self.state.jobs))):
            told = InjectedInstruction(target=job.lane, turn_id=job.turn_id, text="x", by="edge")
            self.commit(EDGE_LANE, told)

    def interrupt(self) -> None:
        turn_id = self.state.turn.turn_id if self.state.turn else None
        if self.random.random() < 0.5:
            self.commit(EDGE_LANE, Cancelled(target=EDGE_LANE, turn_id=turn_id, by="user"))
        else:
            told = InjectedInstruction(target=EDGE_LANE, turn_id=turn_id, text="x", by="user")
            self.commit(EDGE_LANE, told)

    def acknowledge(self) -> None:
        self.durable = len(self.log)

    def crash(self) -> None:
        lost = self.random.randint(0, 4)
        del self.log[max(len(self.log) - lost, self.durable, 1) :]
        self.state = folded(self.log)
        self.commit("session", SessionResumed(epoch=self.state.epoch + 1))

    def snapshot(self) -> None:
        self.commit("session", Snapshot(state=dump_state(self.state), window_from=1))

    # what the lanes do

    def move_edge(self) -> None:
        turn = self.state.turn
        if turn is not None:
            self.move_turn(turn)
        elif self.state.due:
            self.begin_report()
        else:
            self.take_message()

    def begin_report(self) -> None:
        due, turn_id = self.state.due[0], self.ids.new("turn")
        begun = ReportBegun(turn_id=turn_id, dm="d", subject=due.subject, brief=due.brief)
        self.commit(EDGE_LANE, begun)

    def take_message(self) -> None:
        taken = {
            event.payload.inbox_id
            for event in self.log
            if isinstance(event.payload, UserMessageStarted)
        }
        inbox_id = next((inbox_id for inbox_id in self.asked if inbox_id not in taken), None)
        if inbox_id is not None:
            turn_id = self.ids.new("turn")
            self.commit(
                EDGE_LANE, UserMessageStarted(turn_id=turn_id, inbox_id=inbox_id, dm="d", text="x")
            )

    def move_some_job(self) -> None:
        if self.state.jobs:
            self.move_job(self.random.choice(self.state.jobs))

    def move_turn(self, turn: TurnState) -> None:
        move = next_turn_move(turn, BUDGETS)
        match move:
            case CallModel():
                self.think(EDGE_LANE, turn)
            case RunTools():
                self.use(EDGE_LANE, turn)
            case SendAnswer() | EmptyAnswer() | TurnLimitReached() | CancelTurn():
                self.abandon(EDGE_LANE, turn)
                kind = "report" if turn.subject is not None else "answer"
                reply = {"turn_id": turn.turn_id, "dm": "d", "text": "x", "kind": kind}
                self.commit(EDGE_LANE, Reply.model_validate({**reply, "answers": turn.inbox_id}))
            case _:
                assert_never(move)

    def move_job(self, job: JobState) -> None:
        move = next_core_move(job, BUDGETS, self.now)
        match move:
            case CallModel():
                self.think(job.lane, job)
            case RunTools():
                self.use(job.lane, job)
            case WaitForInfo() | RequestCorrection():
                text = "nobody answers" if isinstance(move, WaitForInfo) else move.text
                told = InjectedInstruction(
                    target=job.lane, turn_id=job.turn_id, text=text, by="session"
                )
                self.commit(job.lane, told)
            case CompleteJob():
                self.stop(job, "completed")
            case EndJob():
                self.abandon(job.lane, job)
                self.stop(job, move.outcome)
            case _:
                assert_never(move)

    def think(self, lane: str, work: TurnState | JobState) -> None:
        read = self.random.randint(max(1, len(self.log) - 3), len(self.log))
        count = self.random.randint(0, 2)
        calls = tuple(
            ToolCall(
                call_id=self.ids.new("call"),
                tool=self.random.choice(("spawn", "report", "tool")),
                arguments="{}",
            )
            for _ in range(count)
        )
        text = self.random.choice(("done", "", "{}"))
        self.commit(
            lane,
            ModelOutput(
                turn_id=work.turn_id,
                text=text,
                tool_calls=calls,
                model="m",
                finish_reason="stop",
                prompt_tokens=3,
                read_rev=read,
            ),
        )

    def use(self, lane: str, work: TurnState | JobState) -> None:
        """Take one open call one stage on: a crash may come between any two."""
        opened = [call for call in work.calls if call.stage is not CallStage.DONE]
        call = self.random.choice(opened)
        names = {"turn_id": work.turn_id, "call_id": call.call.call_id, "tool": call.call.tool}
        match call.stage:
            case CallStage.PROPOSED:
                self.commit(lane, ToolCallRequested(**names, input={}))
            case CallStage.REQUESTED:
                self.commit(lane, ToolCallCommitted(**names))
            case CallStage.COMMITTED:
                self.finish(lane, work, call)
            case CallStage.DONE:
                raise AssertionError

    def finish(self, lane: str, work: TurnState | JobState, call: CallState) -> None:
        called = call.call
        if called.tool == "spawn" and isinstance(work, TurnState):
            self.spawn(called.call_id)
        if called.tool == "report" and isinstance(work, JobState):
            self.report(work, called.call_id)
        if self.random.random() < CUT:
            # what the call made happen is durable, and then comes a crash before its result
            self.acknowledge()
            self.crash()
        else:
            self.result(lane, work, call)

    def spawn(self, call_id: str) -> None:
        # as choir.core.spawn: its id follows from the call's, and a known one starts nothing
        job_id = f"job_{call_id}"
        known = {job.turn_id for job in self.state.jobs} | {due.subject for due in self.state.due}
        free = [name for name in NAMES if self.state.find_job(name) is None]
        if job_id not in known and free:
            started = CoreStarted(
                job_id=job_id, job_name=free[0], call_id=call_id, dm="d", task_spec="x"
            )
            self.commit(EDGE_LANE, started)

    def report(self, job: JobState, call_id: str) -> None:
        if call_id not in job.reported_by:
            reported = CoreReported(
                job_id=job.turn_id,
                job_name=job.name,
                kind="need_info",
                body={"missing": "x"},
                call_id=call_id,
            )
            self.commit(job.lane, reported)

    def result(self, lane: str, work: TurnState | JobState, call: CallState) -> None:
        done = ToolResultCommitted(
            turn_id=work.turn_id,
            call_id=call.call.call_id,
            tool=call.call.tool,
            status="success",
            output={},
        )
        self.commit(lane, done)

    def abandon(self, lane: str, work: TurnState | JobState) -> None:
        for call in work.calls:
            if call.stage in (CallStage.REQUESTED, CallStage.COMMITTED):
                self.result(lane, work, call)

    def stop(self, job: JobState, outcome: CoreOutcome) -> None:
        stopped = CoreStopped(job_id=job.turn_id, job_name=job.name, outcome=outcome)
        self.commit(job.lane, stopped)

    # what always holds

    def nothing_is_promised_twice(self) -> None:
        self.every_job_ends_at_most_once_and_is_open_until_then()
        self.every_end_is_owed_to_the_user_until_it_is_told()
        self.every_call_has_one_effect_and_one_result_at_most()

    def every_job_ends_at_most_once_and_is_open_until_then(self) -> None:
        started = self.ids_of(CoreStarted)
        ended = self.ids_of(CoreStopped)
        assert max(started.values(), default=0) <= 1
        assert max(ended.values(), default=0) <= 1
        assert {job.turn_id for job in self.state.jobs} == started.keys() - ended.keys()
        assert len({job.name for job in self.state.jobs}) == len(self.state.jobs)

    def every_end_is_owed_to_the_user_until_it_is_told(self) -> None:
        told = Counter(self.told())
        assert max(told.values(), default=0) <= 1
        owed = {due.subject for due in self.state.due}
        assert self.ids_of(CoreStopped).keys() == {s for s in owed | told.keys() if ":" not in s}
        assert not owed & told.keys()

    def every_call_has_one_effect_and_one_result_at_most(self) -> None:
        results = [e.payload for e in self.log if isinstance(e.payload, ToolResultCommitted)]
        assert len({result.call_id for result in results}) == len(results)
        reported = [e.payload.call_id for e in self.log if isinstance(e.payload, CoreReported)]
        assert len(set(reported)) == len(reported)

    def the_state_is_the_same_however_it_was_reached(self) -> None:
        assert load_state(dump_state(self.state)) == self.state
        assert state_digest(folded(self.log)) == state_digest(self.state)

    def end(self) -> None:
        """Let everybody finish: nothing may stay open."""
        self.now += timedelta(days=1)
        for _ in range(400):
            if self.state.turn is not None:
                self.settle_turn(self.state.turn)
            elif self.state.jobs:
                job = self.state.jobs[0]
                self.abandon(job.lane, job)
                move = next_core_move(job, BUDGETS, self.now)
                assert isinstance(move, EndJob)
                self.stop(job, move.outcome)
            elif self.state.due:
                self.begin_report()
            else:
                break
        assert (self.state.turn, self.state.jobs, self.state.due) == (None, (), ())
        assert self.ids_of(CoreStarted) == self.ids_of(CoreStopped)
        self.every_end_is_owed_to_the_user_until_it_is_told()
        self.every_message_that_was_taken_up_is_closed_once()

    def settle_turn(self, turn: TurnState) -> None:
        self.abandon(EDGE_LANE, turn)
        kind = "report" if turn.subject is not None else "error"
        reply = {"turn_id": turn.turn_id, "dm": "d", "text": "x", "kind": kind}
        self.commit(EDGE_LANE, Reply.model_validate({**reply, "answers": turn.inbox_id}))

    def every_message_that_was_taken_up_is_closed_once(self) -> None:
        taken = [e.payload.inbox_id for e in self.log if isinstance(e.payload, UserMessageStarted)]
        replies = [e.payload for e in self.log if isinstance(e.payload, Reply)]
        closed = [reply.answers for reply in replies if reply.kind in CLOSING]
        assert Counter(taken) == Counter(closed)
        assert max(Counter(taken).values(), default=0) <= 1

    def ids_of(self, kind: type[CoreStarted] | type[CoreStopped]) -> Counter[str]:
        return Counter(e.payload.job_id for e in self.log if isinstance(e.payload, kind))

    def told(self) -> list[str]:
        subjects = {
            event.payload.turn_id: event.payload.subject
            for event in self.log
            if isinstance(event.payload, ReportBegun)
        }
        replies = [e.payload for e in self.log if isinstance(e.payload, Reply)]
        return [subjects[r.turn_id or ""] for r in replies if r.kind == "report"]


def folded(log: list[CommittedEvent]) -> SessionState:
    state = SessionState()
    for event in log:
        state = apply_event(state, again(event))
    return state


def again(event: CommittedEvent) -> CommittedEvent:
    """Return the event as it comes back from the durable log."""
    wire = WireEvent(
        session_id="s",
        rev=event.rev,
        lane=event.lane,
        type=event.payload.type,
        payload=render_payload(event.payload),
        at=event.at,
        hash_prev="",
        hash="",
    )
    return CommittedEvent(event.rev, "", event.lane, event.at, parse_payload(wire))


DEEDS = (
    *[Session.move_edge] * 8,
    *[Session.move_some_job] * 8,
    *[Session.ask] * 2,
    *[Session.acknowledge] * 2,
    *[Session.crash] * 2,
    Session.wait,
    Session.cancel_job,
    Session.inject_job,
    Session.interrupt,
    Session.snapshot,
)


@settings(max_examples=example_count(20), deadline=None)
@given(
    deeds=st.lists(st.sampled_from(DEEDS), min_size=80, max_size=200),
    random=st.randoms(use_true_random=False),
)
def test_random_sessions_keep_what_is_promised(
    deeds: list[Callable[[Session], None]], random: Random
) -> None:
    session = Session(random)
    session.ask()
    for _ in NAMES:
        session.spawn(session.ids.new("call"))
    for place, deed in enumerate(deeds):
        deed(session)
        if place % LOOK_EVERY == 0:
            session.nothing_is_promised_twice()
    session.nothing_is_promised_twice()
    session.the_state_is_the_same_however_it_was_reached()
    session.end()
