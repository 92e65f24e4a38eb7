"""The core job of a schedule, a trigger or a request: its briefing, and the input of its skill. Pure.

The job's id is derived from the message, so a turn that a crash interrupted starts the same job.
"""

import orjson

from choir_agent.log.session_state import SessionState
from choir_agent.prompt.event_messages import describe_file
from choir_common.wire.core_jobs import JobOptions
from choir_common.wire.events import CoreStarted, UserMessageStarted
from choir_common.wire.model import JsonObject
from choir_common.wire.prompt_marks import OUTSIDE_VALUES_REMARK


def job_of_schedule(message: UserMessageStarted, state: SessionState) -> CoreStarted:
    """Return the start of the core job that the message of a schedule, a trigger or a request asks for."""
    wake_up = message.wake_up
    options = JobOptions() if wake_up is None or wake_up.job is None else wake_up.job
    name = "schedule" if wake_up is None else f"schedule-{wake_up.schedule_id}"
    task = message.text
    if wake_up is not None and wake_up.job is not None:
        name = options.name or "job"
    if wake_up is not None and wake_up.outside:
        files = (describe_file(file, by_user=False) for file in message.attachments)
        name = "trigger"
        task = "\n\n".join((f"[Choir] {OUTSIDE_VALUES_REMARK}", task, *files))
    return CoreStarted(
        job_id=f"job_{message.inbox_id}",
        job_name=_free_name(name, state),
        call_id="",
        dm=message.dm,
        task_spec=task,
        context_bundle=options.context_bundle,
        tool_constraints=options.tool_constraints,
        output_schema=options.output_schema,
        verbosity=options.verbosity,
        harness=options.harness or "",
        begun=message.sent,
        answers=message.inbox_id,
        skill="" if wake_up is None else wake_up.skill,
    )


def skill_input(task_spec: str) -> JsonObject:
    """Return the input of a job's skill: the task if that is a JSON object, else an empty one."""
    try:
        parsed = orjson.loads(task_spec)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _free_name(name: str, state: SessionState) -> str:
    """Return a name that no open job has: an earlier run of the schedule may still be open."""
    names_in_use = {job.name for job in state.jobs}
    names = (name, *(f"{name}-{number}" for number in range(2, len(names_in_use) + 2)))
    return next(free for free in names if free not in names_in_use)
