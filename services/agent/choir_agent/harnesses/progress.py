"""Reports of a harness's progress, as a core job makes them: few, short, and only if something is new."""

import asyncio
from typing import Protocol

from choir_agent.harnesses.updates import PlanReport, Step
from choir_agent.log.session_state import JobState
from choir_common.escape_text import escape_hidden
from choir_common.wire.events import CoreReported, CoreReportKind, EventPayload
from choir_common.wire.model import JsonObject

INTERVAL_S = 5.0
MAX_REPORTS = 300
"""Reports of one job: a talkative harness must not fill the log."""
MAX_FOCUS = 300


class Committer(Protocol):
    """Appender to the log."""

    def commit(self, lane: str, payload: EventPayload) -> int: ...


class ProgressReports:
    """Reports of one job."""

    def __init__(self, committer: Committer, job: JobState) -> None:
        self._committer, self._lane = committer, job.lane
        self._job_id, self._name = job.turn_id, job.name
        self._next_at = 0.0
        self._count = 0
        self._last: tuple[str, JsonObject] = ("", {})

    def say(self, message: str) -> None:
        """Report the end of its message."""
        lines = message.strip().splitlines()
        if lines:
            self._report("progress", {"phase": "writing", "focus": _short(lines[-1])})

    def take_step(self, step: Step) -> None:
        """Report a tool call of its own."""
        focus = f"{step.title or 'a tool call'} ({step.status})"
        self._report("progress", {"phase": "working", "focus": _short(focus)})

    def show_plan(self, plan: PlanReport) -> None:
        """Report its plan."""
        steps = [f"{content} ({status})" if status else content for content, status in plan.entries]
        self._report("plan", {"steps": [*map(_short, steps)]}, is_urgent=True)

    def _report(self, kind: CoreReportKind, body: JsonObject, *, is_urgent: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        is_early = now < self._next_at and not is_urgent
        if is_early or self._count >= MAX_REPORTS or self._last == (kind, body):
            return
        self._next_at, self._last = now + INTERVAL_S, (kind, body)
        self._count += 1
        report = CoreReported(job_id=self._job_id, job_name=self._name, kind=kind, body=body)
        self._committer.commit(self._lane, report)


def _short(text: str) -> str:
    return escape_hidden(" ".join(text.split())[:MAX_FOCUS], keep="")
