"""A model that misbehaves with core jobs, in them, and as their reporter: the session survives each, within
its budget, with a clear trail, and the next message is answered."""

import pytest
from starlette.responses import Response

from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    InjectedInstruction,
    MemoryCompacted,
    ReferenceSummary,
    Reply,
    SkillStarted,
    SkillStopped,
    SkillTransitioned,
)
from choir_common.wire.signals import CompactSignal
from choir_models import call_deadline
from tests.service.agent.scripted_model import Asked, Script, calls, endless, says
from tests.service.agent.survival import survives
from tests.support.replay import fold

BUDGETS = Budgets(
    max_steps_per_turn=15, max_core_jobs=3, per_job_max_steps=6, per_job_max_tool_calls=20
)
READ = ("choir_fs_read", {"path": "notes.txt"})
WRITE = ("choir_fs_write", {"path": "forbidden.txt", "content": "x"})
PATIENT_MS = 60_000


@pytest.fixture(autouse=True)
def short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model call last as long as the provider may be silent."""
    monkeypatch.setattr(call_deadline, "MAX_CALL_S", 1.0)


def spawn(name: str, **more: object) -> tuple[str, object]:
    return ("choir_core_spawn", {"job_name": name, "task_spec": "Work.", **more})


def hangs(_: Asked) -> Response:
    return endless(b" ", 0.05)


def by_lane(edge: Script, core: Script = hangs, report: Script = lambda _: says("Told.")) -> Script:
    """Give each lane a script of its own."""

    def script(asked: Asked) -> Response:
        match asked.lane:
            case "core":
                return core(asked)
            case "report":
                return report(asked)
            case "edge":
                return edge(asked)
        return says("nothing to say")

    return script


def then(*answers: Response) -> Script:
    """Answer one after the other within a turn, the last one again and again."""
    return lambda asked: answers[min(asked.turn.answers, len(answers) - 1)]


STARTS = then(calls(spawn("one")), says("Started."))


async def test_a_forbidden_tool_ten_times_while_a_job_runs_is_refused_ten_times() -> None:
    edge = then(calls(spawn("one")), *[calls(WRITE)] * 10, says("I give up."))
    async with survives(by_lane(edge), BUDGETS, model_timeout_ms=PATIENT_MS) as agent:
        assert (await agent.goes_on()).text == "I give up."
        assert agent.codes()["edge_restricted"] == 10
        assert not (agent.control.workspace / "forbidden.txt").exists()


@pytest.mark.parametrize(
    "call",
    [spawn("two"), ("choir_core_inject", {"job_name": "one", "content": "x"}),
     ("choir_core_cancel", {"job_name": "one"}), ("choir_core_list", {})],
    ids=["spawn", "inject", "cancel", "list"],
)  # fmt: skip
async def test_a_core_job_cannot_use_what_belongs_to_the_edge_lane(
    call: tuple[str, object],
) -> None:
    core = then(calls(call), says("Done."))
    async with survives(by_lane(STARTS, core), BUDGETS) as agent:
        await agent.goes_on()
        (stopped,) = await agent.ended()
        assert stopped.outcome == "completed"
        assert [result.status for result in agent.results()] == ["success", "refused"]
        assert len(agent.all(CoreStarted)) == 1


async def test_the_edge_lane_cannot_report_as_a_core_job() -> None:
    report = ("choir_core_report", {"kind": "progress", "body": {"percent": 100}})
    async with survives(by_lane(then(calls(report), says("Sorry.")))) as agent:
        assert (await agent.goes_on()).text == "Sorry."
        assert [result.status for result in agent.results()] == ["refused"]
        assert agent.all(CoreReported) == []


async def test_a_hundred_spawns_in_one_output_start_no_more_jobs_than_are_allowed() -> None:
    budgets = BUDGETS.model_copy(update={"max_tool_calls_per_turn": 100})
    edge = then(calls(*[spawn(f"job-{n}") for n in range(100)]), says("So many."))
    async with survives(by_lane(edge), budgets, model_timeout_ms=PATIENT_MS) as agent:
        assert (await agent.goes_on()).text == "So many."
        assert len(agent.all(CoreStarted)) == 3
        assert agent.codes() == {"success": 3, "too_many_jobs": 97}


async def test_spawning_in_a_loop_ends_with_the_turn() -> None:
    def edge(asked: Asked) -> Response:
        return calls(spawn(f"job-{asked.number}"))

    async with survives(by_lane(edge), BUDGETS, model_timeout_ms=PATIENT_MS) as agent:
        assert "max_steps_per_turn" in (await agent.goes_on()).text
        assert len(agent.all(CoreStarted)) == 3


@pytest.mark.parametrize("name", ["", "A", "../x", "a b", "x" * 42, "edge\n", "жук", "a:b"])
async def test_a_job_name_that_is_none_is_refused(name: str) -> None:
    async with survives(by_lane(then(calls(spawn(name)), says("Sorry.")))) as agent:
        assert (await agent.goes_on()).text == "Sorry."
        assert agent.all(CoreStarted) == []


async def test_a_taken_name_is_refused() -> None:
    edge = then(calls(spawn("one"), spawn("one")), says("Well."))
    async with survives(by_lane(edge), BUDGETS, model_timeout_ms=PATIENT_MS) as agent:
        await agent.goes_on()
        assert len(agent.all(CoreStarted)) == 1


@pytest.mark.parametrize(
    "core",
    [
        lambda _: calls(READ),
        lambda _: calls(*[READ] * 10_000),
        lambda _: calls(("choir_core_report", {"kind": "progress", "body": {"percent": 1}})),
        lambda _: calls(("choir_rockets_launch", "{")),
        lambda _: says(""),
    ],
    ids=["calls for ever", "10,000 calls", "reports for ever", "bad calls for ever", "silence"],
)
async def test_a_core_job_that_never_ends_is_ended_and_reported(core: Script) -> None:
    async with survives(by_lane(STARTS, core), BUDGETS) as agent:
        await agent.goes_on()
        (stopped,) = await agent.ended()
        assert stopped.outcome in ("budget_exceeded", "error")
        assert stopped.reason
        assert stopped.steps <= BUDGETS.per_job_max_steps
        assert len(agent.results()) <= 1 + BUDGETS.per_job_max_tool_calls


async def test_a_core_job_that_reports_ten_thousand_times_reports_no_more_than_its_calls() -> None:
    report = ("choir_core_report", {"kind": "partial_result", "body": {"text": "x" * 1000}})
    async with survives(by_lane(STARTS, lambda _: calls(*[report] * 10)), BUDGETS) as agent:
        await agent.goes_on()
        (stopped,) = await agent.ended()
        assert stopped.outcome == "budget_exceeded"
        assert len(agent.all(CoreReported)) <= BUDGETS.per_job_max_tool_calls
        assert len([r for r in agent.all(Reply) if r.kind == "report"]) == 1


async def test_a_core_job_that_hangs_is_ended_when_its_time_is_over() -> None:
    budgets = BUDGETS.model_copy(update={"per_job_wall_time_ms": 1_000})
    async with survives(by_lane(STARTS), budgets, model_timeout_ms=PATIENT_MS) as agent:
        await agent.goes_on()
        (stopped,) = await agent.ended()
        assert stopped.outcome == "budget_exceeded"
        assert "per_job_wall_time_ms" in stopped.reason


async def test_a_result_that_never_has_the_asked_shape_is_no_result() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    edge = then(calls(spawn("one", output_schema=schema)), says("Started."))
    async with survives(by_lane(edge, lambda _: says('{"n": "many"}')), BUDGETS) as agent:
        await agent.goes_on()
        (stopped,) = await agent.ended()
        assert (stopped.outcome, stopped.steps) == ("error", 3)
        assert stopped.result is None


async def test_an_inject_storm_reaches_a_job_no_more_often_than_allowed() -> None:
    budgets = Budgets(max_injections_per_job=4, max_tool_calls_per_turn=100)
    storm = [("choir_core_inject", {"job_name": "one", "content": f"do {n}"}) for n in range(50)]
    edge = then(calls(spawn("one")), calls(*storm), says("Said."))
    async with survives(by_lane(edge), budgets, model_timeout_ms=PATIENT_MS) as agent:
        assert (await agent.goes_on()).text == "Said."
        assert len(agent.all(InjectedInstruction)) == 4
        assert agent.codes()["too_many_injections"] == 46


async def test_jobs_that_are_not_there_can_be_neither_told_nor_cancelled() -> None:
    ghost = [
        ("choir_core_inject", {"job_name": "ghost", "content": "boo"}),
        ("choir_core_cancel", {"job_name": "ghost"}),
    ]
    async with survives(by_lane(then(calls(*ghost), says("Sorry.")))) as agent:
        assert (await agent.goes_on()).text == "Sorry."
        assert agent.codes() == {"no_such_job": 2}


@pytest.mark.parametrize(
    "report",
    [lambda _: says(""), lambda _: calls(READ), hangs],
    ids=["silence", "calls for ever", "hanging"],
)
async def test_what_a_misbehaving_reporter_keeps_back_the_user_is_told_all_the_same(
    report: Script,
) -> None:
    core = then(says("The result is 42."))
    async with survives(by_lane(STARTS, core, report), BUDGETS, model_timeout_ms=1_500) as agent:
        await agent.goes_on()
        await agent.ended()
        told = [r.text for r in agent.all(Reply) if r.kind == "report"]
        assert any("42" in text for text in told)


async def test_reports_that_start_jobs_that_are_reported_do_not_go_on_without_the_user() -> None:
    budgets = BUDGETS.model_copy(update={"max_core_jobs_per_message": 7})

    def report(asked: Asked) -> Response:
        return calls(spawn(f"again-{asked.number}"))

    core = then(says("Done."))
    async with survives(by_lane(STARTS, core, report), budgets) as agent:
        await agent.goes_on()
        await agent.ended(7)
        assert len(agent.all(CoreStarted)) == 7


async def test_a_job_that_asks_and_asks_does_not_flood_the_user() -> None:
    need = ("choir_core_report", {"kind": "need_info", "body": {"missing": "the colour"}})
    async with survives(by_lane(STARTS, lambda _: calls(*[need] * 15)), BUDGETS) as agent:
        await agent.goes_on()
        await agent.told(1)
        await agent.answers_the_next("inb_between")
        assert len([r for r in agent.all(Reply) if r.kind == "report"]) == 1


def leap(on: str) -> tuple[str, object]:
    return ("choir_skill_transition", {"on": on, "context": {}})


async def test_a_leap_without_a_skill_and_a_skill_that_does_not_exist_are_refused() -> None:
    start = ("choir_skill_start", {"skill": "world-domination", "input": {}})
    async with survives(then(calls(leap("complete"), start), says("Sorry."))) as agent:
        assert (await agent.goes_on()).text == "Sorry."
        assert {result.status for result in agent.results()} <= {"refused", "error"}
        assert agent.all(SkillStarted) == []


async def test_leaps_to_wherever_the_model_likes_end_the_skill_and_not_the_session() -> None:
    wanted = {"skill": "tool-builder", "input": {"requirement": "a tool", "why": "because"}}
    leaps = [calls(leap(on)) for on in ("submit", "done", "../../x", "complete\x00", "error", "")]
    edge = then(calls(("choir_skill_start", wanted)), *leaps, *leaps, says("Well."))
    async with survives(edge, BUDGETS) as agent:
        await agent.goes_on()
        started = agent.all(SkillStarted)
        assert len(started) == 1
        assert len(agent.all(SkillTransitioned)) <= 1
        assert [stopped.outcome for stopped in agent.all(SkillStopped)] == ["error"]
        assert fold(agent.control.events).skills == ()


BAD_DELTAS = {
    "no JSON": "I would rather not.",
    "half of it": '{"memory_delta": {"mode": "append"',
    "a list": "[]",
    "nothing": "",
    "no delta": '{"summary": "x"}',
    "an unknown mode": '{"memory_delta": {"mode": "burn", "summary_update": "x"}}',
    "wrong types": '{"memory_delta": {"mode": "append", "summary_update": ["x"]}}',
    "fields nobody asked for": '{"memory_delta": {"mode": "append", "rm": "-rf"}}',
    "far too much": '{"memory_delta": {"mode": "append", "summary_update": "' + "x" * 3_000_000 + '"}}',
}  # fmt: skip


@pytest.mark.parametrize("delta", BAD_DELTAS.values(), ids=BAD_DELTAS.keys())
async def test_a_bad_memory_delta_changes_nothing(delta: str) -> None:
    asked = []

    def script(request: Asked) -> Response:
        if request.lane == "compaction":
            asked.append(request)
            return says(delta)
        return says("Hello.")

    async with survives(script) as agent:
        for number in range(8):
            await agent.control.say("hello " * 50, f"inb_{number}")
            await agent.closing(f"inb_{number}")
        await agent.control.tell(CompactSignal())
        await agent.control.until(lambda: bool(asked))
        await agent.goes_on("inb_after")
        tries = agent.all(MemoryCompacted)
        assert tries
        assert all(tried.failed and tried.through_rev == 0 for tried in tries)
        summary = fold(agent.control.events).summary_of("edge")
        assert summary is None or summary.summary == ReferenceSummary()
