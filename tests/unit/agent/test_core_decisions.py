"""What a core job does next follows from the log's state alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from choir_agent.lanes.core_job_moves import (
    CompleteJob,
    EndJob,
    InvalidResult,
    JobResult,
    RequestCorrection,
    WaitForInfo,
    next_core_move,
    parse_job_result,
    time_left,
)
from choir_agent.lanes.turn_moves import CallModel, RunTools
from choir_agent.log.session_state import CallStage, CallState, JobState
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreStarted, ModelOutput, ToolCall, ToolConstraints
from choir_common.wire.model import JsonObject

BEGAN = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
NOW = BEGAN + timedelta(seconds=10)
CALL = ToolCall(call_id="call_1", tool="choir.fs.read", arguments="{}")
SHAPE: JsonObject = {"type": "object", "required": ["n"]}


def output(text: str = "", *calls: ToolCall, read_rev: int = 0) -> ModelOutput:
    return ModelOutput(
        turn_id="j", text=text, tool_calls=calls, model="m", finish_reason="stop", read_rev=read_rev
    )


def job(schema: JsonObject | None = None, time_budget_ms: int = 0, **fields: object) -> JobState:
    briefing = CoreStarted(
        job_id="j",
        job_name="worker",
        call_id="c",
        dm="d",
        task_spec="work",
        tool_constraints=ToolConstraints(time_budget_ms=time_budget_ms),
        output_schema=schema,
    )
    started = JobState(turn_id="j", dm="d", briefing=briefing, started_at=BEGAN.isoformat())
    return replace(started, **fields)  # type: ignore[arg-type]


def move(state: JobState, budgets: Budgets | None = None, now: datetime = NOW) -> object:
    return next_core_move(state, budgets or Budgets(), now)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (job(), CallModel),
        (job(output=output("done"), steps=1), CompleteJob),
        (job(output=output("", CALL), calls=(CallState(CALL),), steps=1), RunTools),
        (
            job(output=output("", CALL), calls=(CallState(CALL, CallStage.DONE),), steps=1),
            CallModel,
        ),
        (job(output=output("done", read_rev=4), news_rev=5, steps=1), CallModel),
        (job(output=output("done", read_rev=5), news_rev=5, steps=1), CompleteJob),
        (job(needs="a colour", output=output("", CALL), steps=1), WaitForInfo),
        (job(SHAPE, output=output("no JSON"), steps=1), RequestCorrection),
        (job(SHAPE, output=output("no JSON"), steps=3, corrections=2), EndJob),
        (job(SHAPE, output=output('{"n": 1}'), steps=3, corrections=2), CompleteJob),
        (job(output=output(" "), steps=1), RequestCorrection),
        (job(cancelled=True, output=output("done")), EndJob),
        (job(resumes=3), EndJob),
        (job(resumes=2), CallModel),
        (job(steps=100, output=output("", CALL)), EndJob),
        (job(steps=100, output=output("made it")), CompleteJob),
        (job(proposed=301, calls=(CallState(CALL),)), EndJob),
    ],
)
def test_the_next_move_follows_from_the_state_alone(state: JobState, expected: type) -> None:
    assert isinstance(move(state), expected)


@pytest.mark.parametrize(
    ("state", "now", "names"),
    [
        (job(), BEGAN + timedelta(hours=1), "(setting budgets.per_job_wall_time_ms)"),
        (job(time_budget_ms=9_000), NOW, "(time_budget_ms)"),
        (job(steps=100), NOW, "limit of 100 model calls"),
        (job(steps=100), NOW, "(setting budgets.per_job_max_steps)"),
        (job(proposed=301, calls=(CallState(CALL),)), NOW, "limit of 300 tool calls"),
        (
            job(proposed=301, calls=(CallState(CALL),)),
            NOW,
            "(setting budgets.per_job_max_tool_calls)",
        ),
    ],
)
def test_a_job_that_reached_a_limit_ends_and_says_in_words_which_it_was(
    state: JobState, now: datetime, names: str
) -> None:
    ended = move(state, now=now)
    assert isinstance(ended, EndJob)
    assert ended.outcome == "budget_exceeded"
    assert names in ended.reason


def test_a_clock_that_was_set_back_gives_a_job_no_more_time() -> None:
    assert time_left(job(), Budgets(), BEGAN - timedelta(days=1)) == timedelta(hours=1)


def test_a_briefing_cannot_ask_for_more_time_than_there_is() -> None:
    budgets = Budgets(per_job_wall_time_ms=20_000)
    assert time_left(job(time_budget_ms=90_000), budgets, NOW) == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('{"n": 1}', {"n": 1}),
        ('```json\n{"n": 1}\n```', {"n": 1}),
        ('```\n{"n": 1}\n```', {"n": 1}),
    ],
)
def test_a_result_may_stand_in_a_code_fence(text: str, result: JsonObject) -> None:
    assert parse_job_result(text, SHAPE) == JobResult(result)


def test_a_result_that_is_no_object_is_kept_as_a_value() -> None:
    assert parse_job_result("[1, 2]", {"type": "array"}) == JobResult({"value": [1, 2]})


@pytest.mark.parametrize("text", ["", "n is 1", 'Here it is: {"n": 1}', "[]", '{"m": 1}'])
def test_words_around_or_instead_of_the_asked_shape_are_a_misfit(text: str) -> None:
    assert isinstance(parse_job_result(text, SHAPE), InvalidResult)
