"""A schedule starts a core job, or a skill in one, without a model call of the edge lane."""

import asyncio

import pytest

from choir_common.wire.config import Budgets
from choir_common.wire.core_jobs import JobOptions, ToolConstraints
from choir_common.wire.events import (
    BudgetExhausted,
    CoreStarted,
    CoreStopped,
    Reply,
    SkillStarted,
    SkillStopped,
    UserMessageStarted,
)
from choir_common.wire.schedules import WakeUp
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.ledger import ledger, undo_what_was_not_committed
from tests.service.agent.rude_provider import rude_provider
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import calls, run_scripted, says
from tests.service.agent.test_session_budgets import costly, count
from tests.service.agent.test_skills import END, ON, READ, WRITE, Model, install, moves
from tests.support.nightly import nightly_but_every

SUMMARY = "schedule 7, every 1h, created by the user"
JOB = WakeUp(schedule_id=7, summary=SUMMARY, by_agent=False, as_job=True)
TEA_SKILL = JOB.model_copy(update={"skill": "tea"})
LEAF = '{"leaf": "green"}'
LEDGER = {"name": "choir.exec", "arguments": {"command": "echo done >> ledger"}}
SCORE = Score.model_validate(
    {
        "rules": [
            {"when": {"lane": "core"}, "then": [{"call": LEDGER}, {"say": "the books are kept"}]}
        ],
        "otherwise": [{"say": "{user}"}],
    }
)


def of(control: ControlStandIn, kind: type) -> list[object]:
    return [p for p in control.payloads() if isinstance(p, kind)]


def ends(control: ControlStandIn) -> list[CoreStopped]:
    return [p for p in control.payloads() if isinstance(p, CoreStopped)]


def reports(control: ControlStandIn) -> list[Reply]:
    return [reply for reply in control.replies() if reply.kind == "report"]


async def reported(control: ControlStandIn) -> Reply:
    await control.until(lambda: bool(reports(control)))
    return reports(control)[0]


async def test_a_core_job_is_started_at_once_and_its_end_is_reported() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("keep the books", "run_1", wake_up=JOB)
            told = await reported(control)
            await control.say("what is above?", "inb_2")
            answer = (await control.replied())[-1]
    (started,) = [p for p in control.payloads() if isinstance(p, CoreStarted)]
    assert (started.answers, started.job_name, started.task_spec) == (
        "run_1",
        "schedule-7",
        "keep the books",
    )
    assert "the books are kept" in told.text and told.answers is None
    assert [end.outcome for end in ends(control)] == ["completed"]
    types = control.types()
    before = types[types.index("user_msg") : types.index("core_started")]
    assert before == ["user_msg"], "no model call and no reply"
    assert answer.answers == "inb_2"


async def test_the_edge_lane_reads_that_a_core_job_does_it_and_the_job_reads_the_words() -> None:
    model = Model([says("the books are kept"), says("They are kept."), says("Hello.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        async with running_agent(control):
            await control.say("keep the books", "run_1", wake_up=JOB)
            await reported(control)
            await control.say("hello", "inb_2")
            await control.replied()
    job, _, edge = (str(asked.body["messages"]) for asked in model.shown)
    assert "# Task: schedule-7" in job and "keep the books" in job and "[Choir] Not" not in job
    assert f"[Choir] Not a message of the user: {SUMMARY}. A core job does what it says" in edge


async def test_two_open_jobs_of_a_schedule_have_different_names() -> None:
    rule = {"when": {"lane": "core"}, "then": [{"hang": True, "say": "never"}]}
    async with run_rehearsal(Score.model_validate({"rules": [rule]})) as model:
        async with run_control(model) as control:
            async with running_agent(control):
                for number in (1, 2, 3):
                    await control.say("keep the books", f"run_{number}", wake_up=JOB)
                await control.until(lambda: len(of(control, CoreStarted)) == 3)
    names = [p.job_name for p in control.payloads() if isinstance(p, CoreStarted)]
    assert names == ["schedule-7", "schedule-7-2", "schedule-7-3"]


@pytest.mark.parametrize("kept", nightly_but_every(3, range(1, 19)))
async def test_a_scheduled_job_cut_off_after_any_event_starts_ends_and_is_reported_once(
    kept: int,
) -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await control.say("keep the books", "run_1", wake_up=JOB)
        async with running_agent(control):
            await reported(control)
            await asyncio.sleep(0.05)
        control.crash_and_cut(kept)
        undo_what_was_not_committed(control)
        async with running_agent(control):
            await reported(control)
            await asyncio.sleep(0.05)
        assert len(of(control, UserMessageStarted)) == len(of(control, CoreStarted)) == 1
        assert [end.outcome for end in ends(control)] == ["completed"]
        assert len(reports(control)) == 1
        assert not [reply for reply in control.replies() if reply.answers]
        assert ledger(control) == 1


async def test_a_skill_is_run_step_by_step_in_a_core_job() -> None:
    walk = [calls(READ), calls(ON), calls(WRITE), calls(END), says("Two cups."), says("Tea!")]
    model = Model(walk)
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say(LEAF, "run_1", wake_up=TEA_SKILL)
            assert (await reported(control)).text == "Tea!"
    assert moves(control) == ["in boil", "complete pour", "complete done", "out completed"]
    (begun,) = [p for p in control.payloads() if isinstance(p, SkillStarted)]
    assert begun.input == {"leaf": "green"}
    (end,) = ends(control)
    assert (end.outcome, end.result) == ("completed", {"text": "Two cups."})
    # the first prompt of the job is already that of the first step
    assert model.tools()[0] == ["choir_core_report", "choir_fs_read", "choir_skill_transition"]


@pytest.mark.parametrize("kept", nightly_but_every(3, range(1, 16)))
async def test_a_skill_of_a_schedule_cut_off_after_any_event_begins_and_ends_once(
    kept: int,
) -> None:
    score = {
        "rules": [
            {
                "when": {"lane": "core"},
                "then": [
                    {"call": {"name": "choir.skill.transition", "arguments": ON[1]}},
                    {"call": {"name": "choir.skill.transition", "arguments": END[1]}},
                    {"say": "Two cups."},
                ],
            }
        ],
        "otherwise": [{"say": "Tea!"}],
    }
    async with run_rehearsal(Score.model_validate(score)) as model, run_control(model) as control:
        install(control)
        await control.say(LEAF, "run_1", wake_up=TEA_SKILL)
        async with running_agent(control):
            await reported(control)
        control.crash_and_cut(kept)
        async with running_agent(control):
            await reported(control)
        assert len(of(control, SkillStarted)) == len(of(control, SkillStopped)) == 1
        assert [end.outcome for end in ends(control)] == ["completed"]


@pytest.mark.parametrize(
    ("wake_up", "text", "answers", "words"),
    [
        (JOB.model_copy(update={"skill": "coffee"}), LEAF, [], "There is no skill 'coffee'"),
        (TEA_SKILL, "make tea", [], "does not match the input schema"),
        (TEA_SKILL, LEAF, [says("I would rather not.")], "'tea' did not end. It said: I would"),
        (
            TEA_SKILL,
            LEAF,
            [
                calls(("choir_skill_transition", {"on": "cancel", "context": {}})),
                says("No tea."),
            ],
            "'tea' ended as cancelled. It said: No tea.",
        ),
    ],
)
async def test_a_skill_that_cannot_run_or_does_not_complete_fails_the_job(
    wake_up: WakeUp, text: str, answers: list[object], words: str
) -> None:
    model = Model([*answers, says("It failed.")])  # type: ignore[list-item]
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say(text, "run_1", wake_up=wake_up)
            await reported(control)
    (end,) = ends(control)
    assert end.outcome == "error" and words in end.reason


async def test_a_job_that_names_an_unknown_tool_fails_before_its_model_is_called() -> None:
    named = ToolConstraints(allowed_tools=("choir.fs.raed", "choir.core.spawn", "mcp.git.log"))
    wake_up = JOB.model_copy(update={"job": JobOptions(name="read", tool_constraints=named)})
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        async with running_agent(control):
            await control.until(lambda: any(report.job_tools for report in control.statuses))
            await control.say("keep the books", "run_1", wake_up=wake_up)
            await reported(control)
    (end,) = ends(control)
    assert (end.outcome, end.steps) == ("error", 0)
    # tools of MCP servers may come later; the edge lane's own are none of a job
    assert "'choir.fs.raed' (did you mean choir.fs.read?), 'choir.core.spawn'" in end.reason
    assert "mcp.git.log" not in end.reason
    known = next(report.job_tools for report in control.statuses if report.job_tools)
    assert {"choir.fs.read", "choir.exec"} <= set(known) and "choir.core.spawn" not in known


async def test_a_job_that_may_not_start_is_refused_with_the_limit() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        control.budgets = Budgets(max_core_jobs=0)
        async with running_agent(control):
            await control.say("keep the books", "run_1", wake_up=JOB)
            (reply,) = await control.replied()
    assert (reply.kind, reply.answers) == ("error", "run_1")
    assert "max_core_jobs" in reply.text and not of(control, CoreStarted)


@pytest.mark.parametrize("wake_up", [JOB, JOB.model_copy(update={"as_job": False})])
async def test_a_run_under_an_exhausted_budget_fails_and_asks_as_a_message_would(
    wake_up: WakeUp,
) -> None:
    async with rude_provider({"go": costly}) as provider, run_control(provider.endpoint) as control:
        control.budgets = Budgets(total_session_tokens=60_000)
        async with running_agent(control):
            await control.say("go", "inb_0")
            await control.replied()
            await control.say("go", "inb_1")
            await control.say("go", "run_1", wake_up=wake_up)
            replies = await control.replied(3)
    message, run = replies[-2:]
    assert (message.answers, run.answers) == ("inb_1", "run_1")
    assert (run.kind, run.text) == (message.kind, message.text)
    assert run.kind == "error" and "/continue" in run.text
    assert count(control, BudgetExhausted) == 1
    assert not of(control, CoreStarted)
