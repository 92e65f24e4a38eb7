"""Rules of wake-ups: when none starts, and what the agent reads.

A wake-up is a run of a schedule that Choir keeps by `agents.NAME.wake_ups` (`WakeUpPlanner`). The agent looks
after what is open, and answers with a fixed word if there is nothing to say.
"""

from dataclasses import dataclass, replace
from datetime import datetime, time
from zoneinfo import ZoneInfo

from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_common.wire.schedules import NOTHING_TO_SAY
from choir_control.configuration.current import ConfigService
from choir_control.conversations.schedules.records import Schedule, ScheduleChange

WAKE_UP_TEXT = (
    "Look after what is open in this conversation: what you promised and have not done, what was to be ready "
    "by now, and what you found out since that the user should know."
)
ENDING = (
    "Do not repeat what you have said, and do not ask how things are. If there is nothing to say, answer "
    f"{NOTHING_TO_SAY} and nothing else: then the user is not shown anything."
)
SHOWN_JOBS = 10

_OPEN_JOBS = """
SELECT begun.payload ->> 'job_name' AS name
FROM choir_control.sessions AS live
JOIN choir_control.session_events AS begun ON begun.session_id = live.session_id
    AND begun.type = 'core_started'
WHERE live.agent_id = $1 AND live.dm = $2 AND live.ended_at IS NULL AND NOT EXISTS (
    SELECT FROM choir_control.session_events AS ended
    WHERE ended.session_id = live.session_id AND ended.rev > begun.rev AND ended.type = 'core_stopped'
      AND ended.payload ->> 'job_id' = begun.payload ->> 'job_id')
ORDER BY begun.rev DESC LIMIT $3
"""
_PENDING = """
SELECT count(*) FROM choir_control.pending_approvals AS a
JOIN choir_control.sessions AS live USING (session_id)
WHERE live.agent_id = $1 AND live.dm = $2 AND live.ended_at IS NULL AND a.status = 'pending'
"""
_STARTED = """
SELECT count(*) FROM choir_control.schedule_runs
WHERE schedule_id = $1 AND started_at >= $2 AND NOT manual
"""


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What an agent has begun and not ended."""

    jobs: tuple[str, ...]
    """Names of core jobs, the newest first."""
    pending: int
    """Calls that wait for a person's decision."""


class WakeUpStore:
    """Store of what wake-ups depend on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_open_work(self, agent_id: str, dm: str) -> OpenWork:
        """Return the open work of an agent's unfinished session in a conversation."""
        jobs = await self._database.fetch(_OPEN_JOBS, agent_id, dm, SHOWN_JOBS)
        pending = await self._database.fetchval(_PENDING, agent_id, dm)
        return OpenWork(tuple(str(row["name"]) for row in jobs), int(pending))

    async def count_started(self, schedule_id: int, since: datetime) -> int:
        """Return the runs of a schedule that its times have started since then."""
        return int(await self._database.fetchval(_STARTED, schedule_id, since))


class WakeUpRules:
    """Rules for the runs of wake-ups."""

    def __init__(self, store: WakeUpStore, configuration: ConfigService) -> None:
        self._store = store
        self._configuration = configuration

    async def limit(
        self, schedule: Schedule, change: ScheduleChange, now: datetime
    ) -> ScheduleChange:
        """Return the change without runs in quiet hours or above the number a day, and without notices.

        A run that a person started is not limited. The notice that a schedule is paused after failures stays.
        """
        if change.state != "paused":
            change = replace(change, notice="")
        starting = [run for run in change.runs if run.state == "running"]
        if change.is_manual or not starting:
            return change
        reason = await self._blocked_reason(schedule, now)
        if not reason:
            return change
        runs = tuple(
            replace(run, state="skipped", detail=reason) if run in starting else run
            for run in change.runs
        )
        return replace(change, runs=runs)

    async def complete_text(self, schedule: Schedule) -> str:
        """Return what the agent reads: the text of the schedule, what is open, and how to end."""
        work = await self._store.read_open_work(schedule.agent_id, schedule.dm)
        return "\n\n".join(filter(None, (schedule.text, describe_open_work(work), ENDING)))

    async def _blocked_reason(self, schedule: Schedule, now: datetime) -> str:
        agent = self._configuration.current.config.agents.get(schedule.agent_id)
        if agent is None or agent.wake_ups is None:
            return _("wake-ups are not configured any more")
        local = now.astimezone(ZoneInfo(schedule.zone))
        quiet_hours = agent.wake_ups.quiet_hours
        if quiet_hours is not None and is_quiet(quiet_hours, local.time()):
            return _("quiet hours ({quiet_hours})").format(quiet_hours=quiet_hours)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        count = await self._store.count_started(schedule.schedule_id, midnight)
        if count >= agent.wake_ups.max_per_day:
            return _("{count} wake-ups today already (max_per_day)").format(count=count)
        return ""


def is_quiet(quiet_hours: str, at: time) -> bool:
    """Return whether a time of day is in `22:00-07:30`; the end is not, and midnight may lie between."""
    start, end = (time.fromisoformat(part) for part in quiet_hours.split("-"))
    if start <= end:
        return start <= at < end
    return at >= start or at < end


def describe_open_work(work: OpenWork) -> str:
    """Return the open work as text for the agent; empty if there is none."""
    lines = []
    if work.jobs:
        lines.append(f"Open core jobs: {', '.join(work.jobs)}.")
    if work.pending:
        lines.append(f"Calls that wait for the user's decision: {work.pending}.")
    return "\n".join(lines)
