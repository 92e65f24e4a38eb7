"""The core job that a request starts directly has the options of the request."""

from choir_agent.lanes.scheduled_job import job_of_schedule
from choir_agent.log.session_state import SessionState
from choir_common.wire.core_jobs import ContextBundle, JobOptions, ToolConstraints
from choir_common.wire.events import UserMessageStarted
from choir_common.wire.schedules import WakeUp

OPTIONS = JobOptions(
    name="sum",
    context_bundle=ContextBundle(facts=("the year is 2026",)),
    tool_constraints=ToolConstraints(allowed_tools=("choir.fs.read",), time_budget_ms=60_000),
    output_schema={"type": "object"},
    verbosity="quiet",
    harness="coder",
)


def test_a_requested_job_has_the_options_of_the_request() -> None:
    wake_up = WakeUp(summary="by the operator", by_agent=False, as_job=True, job=OPTIONS)
    asked = UserMessageStarted(
        turn_id="t1", inbox_id="in_1", dm="console", text="add", wake_up=wake_up
    )
    job = job_of_schedule(asked, SessionState())
    assert (job.job_id, job.job_name, job.task_spec) == ("job_in_1", "sum", "add")
    assert (job.context_bundle, job.tool_constraints) == (
        OPTIONS.context_bundle,
        OPTIONS.tool_constraints,
    )
    assert (job.output_schema, job.verbosity, job.harness) == ({"type": "object"}, "quiet", "coder")
    assert job.answers == "in_1"
