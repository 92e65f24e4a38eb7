"""Core jobs beside the talk: each ends once, is reported once, and the edge
lane answers meanwhile.
"""

import asyncio

from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    CoreOutcome,
    CoreStarted,
    CoreStopped,
    InjectedInstruction,
    Reply,
    ToolResultCommitted,
)
from choir_common.wire.signals import CancelSignal, ShutdownSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.gated_model import Gate, run_gated
from tests.service.agent.running_agent import running_agent

WRITE = {"name": "choir.fs.write", "arguments": {"path": "out.txt", "content": "written\n"}}


def score(*rules: dict[str, object]) -> Score:
    return Score.model_validate({"rules": list(rules), "otherwise": [{"say": "you said {user}"}]})


def core(contains: str, *steps: dict[str, object]) -> dict[str, object]:
    return {"when": {"lane": "core", "contains": contains}, "then": list(steps)}


def edge(contains: str, *steps: dict[str, object]) -> dict[str, object]:
    return {"when": {"lane": "edge", "contains": contains}, "then": list(steps)}


def stopped(control: ControlStandIn) -> list[CoreStopped]:
    return [p for p in control.payloads() if isinstance(p, CoreStopped)]


def outcomes(control: ControlStandIn) -> dict[str, CoreOutcome]:
    return {p.job_name: p.outcome for p in stopped(control)}


def reports(control: ControlStandIn) -> list[Reply]:
    return [reply for reply in control.replies() if reply.kind == "report"]


def results(control: ControlStandIn, tool: str) -> list[ToolResultCommitted]:
    found = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
    return [result for result in found if result.tool == tool]


async def reported(control: ControlStandIn, count: int = 1) -> list[Reply]:
    await control.until(lambda: len(reports(control)) >= count)
    return reports(control)


async def test_a_job_works_in_the_background_and_its_result_is_reported() -> None:
    work = core("write the file", {"call": WRITE}, {"say": "The file is written."})
    async with run_rehearsal(score(work)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn writer: write the file")
            answer = (await control.replied())[0]
            told = (await reported(control))[0]
        text = (control.workspace / "out.txt").read_text()
    assert "writer: started" in answer.text
    assert "The file is written." in told.text
    assert (told.answers, text) == (None, "written\n")
    assert outcomes(control) == {"writer": "completed"}
    assert [s.result for s in stopped(control)] == [{"text": "The file is written."}]


async def test_the_edge_lane_answers_while_two_jobs_work_and_one_hangs() -> None:
    slow = core("slowly", {"say": "slow one done"})
    gate = Gate("core", "slowly")
    async with run_gated(score(slow), gate) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say(
                "#spawn one: slowly\n#spawn two: slowly\n#spawn stuck: this #hang", "inb_1"
            )
            await control.replied()
            await control.say("how are you?", "inb_2")
            answered = await control.replied(2)
            await gate.reached(2)
            assert not stopped(control)
            gate.open()
            await reported(control, 2)
            await control.tell(CancelSignal(job="stuck"))
            await reported(control, 3)
            await asyncio.sleep(0.2)
    assert answered[1].text == "you said how are you?"
    assert outcomes(control) == {"one": "completed", "two": "completed", "stuck": "cancelled"}
    assert len(reports(control)) == 3
    assert control.types().count("core_started") == 3


async def test_a_job_never_sees_what_the_user_said() -> None:
    spawn = {
        "name": "choir.core.spawn",
        "arguments": {
            "job_name": "quiet",
            "task_spec": "tell what you see",
            "context_bundle": {"facts": ["the sky is green"]},
        },
    }
    rules = (
        edge("pssst", {"call": spawn}, {"say": "on it"}),
        core("tell what", {"say": "I see: {user}"}),
    )
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("pssst, a secret wish of mine")
            told = (await reported(control))[0]
    assert "the sky is green" in told.text
    assert "secret wish" not in told.text


async def test_while_a_job_runs_the_edge_lane_may_only_read() -> None:
    read = {"name": "choir.fs.read", "arguments": {"path": "note.txt"}}
    rules = (edge("do both", {"call": [WRITE, read]}, {"say": "tried"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        (control.workspace / "note.txt").write_text("a note")
        async with running_agent(control):
            await control.say("#spawn stuck: this #hang", "inb_1")
            await control.replied()
            await control.say("do both", "inb_2")
            await control.replied(2)
            refused = results(control, "choir.fs.write")[0]
            await control.tell(CancelSignal(job="stuck"))
            await reported(control)
            await control.say("do both", "inb_3")
            await control.replied(3)
    assert (refused.status, refused.output["code"]) == ("refused", "edge_restricted")
    assert refused.output["running"] == ["stuck"]
    allowed = refused.output["allowed_tools"]
    assert isinstance(allowed, list)
    assert "choir_fs_read" in allowed
    assert "choir_exec" not in allowed
    assert [r.status for r in results(control, "choir.fs.read")] == ["success", "success"]
    assert results(control, "choir.fs.write")[1].status == "success"


async def test_an_effect_proposed_beside_a_spawn_does_not_run_once_the_job_has_begun() -> None:
    spawn = {"name": "choir.core.spawn", "arguments": {"job_name": "j", "task_spec": "x #hang"}}
    rules = (edge("mix", {"call": [spawn, WRITE]}, {"say": "ok"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("mix")
            await control.replied()
    assert results(control, "choir.fs.write")[0].status == "refused"


async def test_an_instruction_reaches_a_job_at_its_next_step() -> None:
    ask = {"name": "choir.core.report", "arguments": {"kind": "need_info", "body": {"m": "which?"}}}
    rules = (core("colour", {"call": ask}, {"say": "painted: {user}"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn painter: choose a colour", "inb_1")
            question = (await reported(control))[0]
            assert not stopped(control)
            await control.say("#inject painter: take red", "inb_2")
            done = (await reported(control, 2))[1]
    assert "which?" in question.text
    assert "take red" in done.text
    injected = [p for p in control.payloads() if isinstance(p, InjectedInstruction)]
    assert [(p.target, p.by) for p in injected] == [("core:painter", "edge")]
    assert outcomes(control) == {"painter": "completed"}


async def test_an_instruction_given_while_the_model_thinks_is_read_before_the_job_ends() -> None:
    rules = (core("go blue", {"say": "blue it is"}), core("think", {"say": "red it is"}))
    gate = Gate("core")
    async with run_gated(score(*rules), gate) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn painter: think", "inb_1")
            await gate.reached()
            await control.say("#inject painter: go blue", "inb_2")
            await control.until(lambda: "injected_instruction" in control.types())
            gate.open()
            told = (await reported(control))[0]
    assert "blue it is" in told.text
    assert stopped(control)[0].steps == 2


async def test_a_job_stays_within_its_steps_calls_time_and_tools() -> None:
    read = {"name": "choir.fs.read", "arguments": {"path": "note.txt"}}
    spawns = [
        {
            "name": "choir.core.spawn",
            "arguments": {"job_name": name, "task_spec": name, "tool_constraints": constraints},
        }
        for name, constraints in (
            ("looper", {}),
            ("caller", {}),
            ("sleeper", {"time_budget_ms": 300}),
            ("writer", {"allowed_tools": ["choir_fs_read"]}),
        )
    ]
    rules = (
        edge("go", {"call": spawns}, {"say": "on it"}),
        core("looper", *([{"call": read}] * 9), {"say": "never"}),
        core("caller", {"call": [read] * 6}, {"say": "never"}),
        core("sleeper", {"hang": True, "say": "never"}),
        core("writer", {"call": WRITE}, {"say": "{result.output.code}"}),
    )
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        control.budgets = Budgets(per_job_max_steps=3, per_job_max_tool_calls=5)
        async with running_agent(control):
            await control.say("go")
            await reported(control, 4)
    by_name = {p.job_name: p for p in stopped(control)}
    exceeded = {name for name, p in by_name.items() if p.outcome == "budget_exceeded"}
    assert exceeded == {"looper", "caller", "sleeper"}
    assert "per_job_max_steps" in by_name["looper"].reason
    assert "per_job_max_tool_calls" in by_name["caller"].reason
    assert "time_budget_ms" in by_name["sleeper"].reason
    assert by_name["writer"].result == {"text": "not_in_briefing"}


async def test_a_result_has_the_asked_shape_or_is_corrected_or_fails() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    spawns = [
        {
            "name": "choir.core.spawn",
            "arguments": {"job_name": name, "task_spec": name, "output_schema": schema},
        }
        for name in ("good", "mended", "bad")
    ]
    rules = (
        edge("go", {"call": spawns}, {"say": "on it"}),
        core("good", {"say": '```json\n{"n": 1}\n```'}),
        {
            "when": {"lane": "core", "regex": "mended(?s:.)*requested schema"},
            "then": [{"say": '{"n": 2}'}],
        },
        core("mended", {"say": '{"n": "two"}'}),
        core("bad", {"say": "no JSON at all"}),
    )
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("go")
            await reported(control, 3)
    by_name = {p.job_name: p for p in stopped(control)}
    assert by_name["good"].result == {"n": 1}
    assert (by_name["mended"].result, by_name["mended"].steps) == ({"n": 2}, 2)
    assert (by_name["bad"].outcome, by_name["bad"].steps) == ("error", 3)
    assert "requested schema" in by_name["bad"].reason


async def test_a_failing_model_ends_the_job_and_the_user_hears_it() -> None:
    rules = (core("break", {"error": {"status": 404, "times": 0}, "say": "never"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn weak: break")
            told = (await reported(control))[0]
    assert outcomes(control) == {"weak": "error"}
    assert "weak" in told.text


async def test_a_storm_of_spawns_starts_no_more_than_the_limit() -> None:
    spawns = [
        {"name": "choir.core.spawn", "arguments": {"job_name": f"j{n % 12}", "task_spec": "#hang"}}
        for n in range(20)
    ]
    rules = (edge("storm", {"call": spawns}, {"say": "started what I could"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        control.budgets = Budgets(max_core_jobs=5)
        async with running_agent(control):
            await control.say("storm")
            await control.replied()
            started = [p for p in control.payloads() if isinstance(p, CoreStarted)]
    codes = [r.output.get("code") for r in results(control, "choir.core.spawn")]
    assert [p.job_name for p in started] == ["j0", "j1", "j2", "j3", "j4"]
    assert codes.count(None) == 5
    assert set(codes) == {None, "too_many_jobs", "name_taken"}


async def test_a_job_that_runs_at_a_stop_is_gone_on_with_by_the_next_start() -> None:
    sleep = {"name": "choir.exec", "arguments": {"command": "touch begun; sleep 30"}}
    rules = (core("sleep", {"call": sleep}, {"say": "it went on"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control) as agent:
            await control.say("#spawn sleeper: sleep")
            while not (control.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            await control.tell(ShutdownSignal(reason="operator"))
            assert await agent == 0
        assert control.types()[-1] == "session_suspended" and not outcomes(control)
        # no result is written for it: one would say that the user cancelled the call
        assert not results(control, "choir.exec")
        control.next_epoch()
        async with running_agent(control):
            told = (await reported(control))[0]
    assert outcomes(control) == {"sleeper": "completed"}
    assert results(control, "choir.exec")[0].status == "interrupted"
    assert "sleeper" in told.text


async def test_jobs_cannot_start_jobs() -> None:
    spawn = {"name": "choir.core.spawn", "arguments": {"job_name": "child", "task_spec": "x"}}
    rules = (core("breed", {"call": spawn}, {"say": "{result.output.code}"}),)
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn parent: breed")
            told = (await reported(control))[0]
    assert "wrong_lane" in told.text
    assert control.types().count("core_started") == 1


async def test_a_job_that_waits_for_a_lock_or_for_an_answer_can_be_cancelled() -> None:
    hold = {"name": "choir.exec", "arguments": {"command": "touch begun; sleep 30"}}
    ask = {"name": "choir.core.report", "arguments": {"kind": "need_info", "body": {"m": "which?"}}}
    rules = (
        core("hold", {"call": hold}, {"say": "never"}),
        core("queue", {"call": WRITE}, {"say": "never"}),
        core("ask", {"call": ask}, {"say": "never"}),
    )
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn holder: hold", "inb_1")
            while not (control.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            await control.say("#spawn waiter: queue\n#spawn asker: ask", "inb_2")
            await control.until(lambda: "core_reported" in control.types())
            await control.say("#cancel waiter\n#cancel asker", "inb_3")
            await control.until(lambda: len(stopped(control)) == 2)
            await control.say("#cancel holder", "inb_4")
            await control.until(lambda: len(stopped(control)) == 3)
    assert set(outcomes(control).values()) == {"cancelled"}
    assert not (control.workspace / "out.txt").exists()
    assert [r.status for r in results(control, "choir.fs.write")] == ["interrupted"]


async def test_the_edge_lane_reads_a_file_while_a_job_has_the_whole_workspace() -> None:
    hold = {"name": "choir.exec", "arguments": {"command": "echo 1 > note.txt; sleep 30"}}
    read = {"name": "choir.fs.read", "arguments": {"path": "note.txt"}}
    rules = (
        core("hold", {"call": hold}, {"say": "never"}),
        edge("read it", {"call": read}, {"say": "It says: {result.output.text}"}),
    )
    async with run_rehearsal(score(*rules)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("#spawn holder: hold", "inb_1")
            while not (control.workspace / "note.txt").exists():
                await asyncio.sleep(0.02)
            await control.say("read it", "inb_2")
            answer = (await control.replied(2))[1]
    assert answer.text == "It says: 1\n"
