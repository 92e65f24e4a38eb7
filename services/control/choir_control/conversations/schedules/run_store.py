"""Store of runs: one statement stores a change of a schedule, its runs and all their effects.

The effect of a run (the message of a reminder, the inbox row of a prompt with its signal) is stored in the
same statement as the run's state. So a kill at any moment leaves either all of it or nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.hosts import find_hosts
from choir_common.postgres.pool import Database
from choir_control.conversations.inbox.store import MAX_HOSTS
from choir_control.conversations.schedules.planning import CLOCK_TOLERANCE
from choir_control.conversations.schedules.records import Schedule, ScheduleChange
from choir_control.conversations.schedules.store import COLUMNS, OPEN_RUNS, schedule_from_record

PAGE = 200

# A due time with a final run is left out: it has had its effect, for example before the clock was set back.
_APPLY = """
WITH claimed AS (
    UPDATE choir_control.schedules SET revision = revision + 1, state = $4, next_due = $5, start_at = $6,
        note = $7, failures = COALESCE($8, failures), planned_at = $3,
        failed_at = CASE WHEN $8 > failures THEN $3 ELSE failed_at END
    WHERE schedule_id = $1 AND revision = $2
    RETURNING schedule_id, dm, kind
), planned AS (
    SELECT claimed.schedule_id, claimed.dm, claimed.kind, r.*
    FROM claimed, unnest($11::text[], $12::timestamptz[], $13::text[], $14::text[], $15::text[], $16::json[])
        AS r(run_id, due_at, state, detail, words, signal)
    WHERE NOT EXISTS (
        SELECT FROM choir_control.schedule_runs AS known
        WHERE known.schedule_id = $1 AND known.due_at = r.due_at AND known.state <> 'due')
), reminded AS (
    SELECT run_id, choir_control.say_with(dm, $10, words, NULL, NULL) AS outbox_id
    FROM planned WHERE kind = 'remind' AND state = 'running'
), asked AS (
    INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at, hosts)
    SELECT run_id, $10, 'schedule:' || run_id, dm, words, $3, $18::text[]
    FROM planned WHERE kind <> 'remind' AND state = 'running'
    RETURNING inbox_id
), offered AS (
    INSERT INTO choir_control.signals (dm, body, inbox_id)
    SELECT planned.dm, planned.signal, asked.inbox_id
    FROM asked JOIN planned ON planned.run_id = asked.inbox_id
), stored AS (
    INSERT INTO choir_control.schedule_runs
        (run_id, schedule_id, due_at, state, detail, manual, outbox_id, created_at, started_at, ended_at)
    SELECT run_id, schedule_id, due_at, state, detail, $17, outbox_id, $3,
        CASE WHEN state = 'running' THEN $3::timestamptz END,
        CASE WHEN state NOT IN ('due', 'running') THEN $3::timestamptz END
    FROM planned LEFT JOIN reminded USING (run_id)
    ON CONFLICT (schedule_id, due_at) DO UPDATE SET state = EXCLUDED.state, detail = EXCLUDED.detail,
        outbox_id = EXCLUDED.outbox_id, started_at = EXCLUDED.started_at, ended_at = EXCLUDED.ended_at
), told AS (
    SELECT choir_control.say(dm, $10, $9) AS dm FROM claimed WHERE $9::text <> ''
)
SELECT true, (SELECT dm FROM told) FROM claimed
"""
# A prompt has ended when its message is answered or closed; the kind of the answer tells how. The start of
# a core job closes its message; the run ends with the job, or with its session.
_SETTLE = """
WITH outcomes AS (
    SELECT run.run_id, CASE
        WHEN s.kind = 'remind' AND told.outbox_id IS NULL THEN 'done'
        WHEN s.kind = 'remind' AND told.status = 'delivered' THEN 'done'
        WHEN s.kind = 'remind' AND told.status = 'undeliverable' THEN 'failed'
        WHEN s.kind = 'remind' THEN NULL
        WHEN asked.inbox_id IS NULL THEN 'failed'
        WHEN asked.answered_rev IS NOT NULL AND answer.kind = 'error' THEN 'failed'
        WHEN begun.rev IS NOT NULL AND job.outcome = 'completed' THEN 'done'
        WHEN begun.rev IS NOT NULL AND (job.outcome IS NOT NULL OR live.ended_at IS NOT NULL) THEN 'failed'
        WHEN begun.rev IS NOT NULL THEN NULL
        WHEN asked.answered_rev IS NOT NULL THEN 'done'
        WHEN asked.closed_at IS NOT NULL THEN 'failed' END AS outcome, CASE
        WHEN told.status = 'undeliverable' THEN left(told.detail, 500)
        WHEN answer.kind = 'error' THEN left(answer.text, 500)
        WHEN job.outcome <> 'completed' THEN left(concat_ws(': ', job.outcome, NULLIF(job.reason, '')), 500)
        WHEN begun.rev IS NOT NULL AND job.outcome IS NULL THEN 'its session ended before its core job did'
        WHEN s.kind <> 'remind' AND asked.answered_rev IS NULL THEN 'its message was closed without an answer'
        ELSE run.detail END AS detail
    FROM choir_control.schedule_runs AS run JOIN choir_control.schedules AS s USING (schedule_id)
    LEFT JOIN choir_control.outbox AS told ON told.outbox_id = run.outbox_id
    LEFT JOIN choir_control.inbox AS asked ON asked.inbox_id = run.run_id
    LEFT JOIN choir_control.outbox AS answer
        ON answer.session_id = asked.session_id AND answer.rev = asked.answered_rev
    LEFT JOIN choir_control.session_events AS begun
        ON begun.session_id = asked.session_id AND begun.rev = asked.answered_rev
            AND begun.type = 'core_started'
    LEFT JOIN choir_control.sessions AS live ON live.session_id = begun.session_id
    LEFT JOIN LATERAL (
        SELECT ended.payload ->> 'outcome' AS outcome, ended.payload ->> 'reason' AS reason
        FROM choir_control.session_events AS ended
        WHERE ended.session_id = begun.session_id AND ended.rev > begun.rev AND ended.type = 'core_stopped'
          AND ended.payload ->> 'job_id' = begun.payload ->> 'job_id' LIMIT 1
    ) AS job ON true
    WHERE run.state = 'running'
), settled AS (
    UPDATE choir_control.schedule_runs AS run
    SET state = outcomes.outcome, detail = outcomes.detail, ended_at = $1
    FROM outcomes
    WHERE run.run_id = outcomes.run_id AND run.state = 'running' AND outcomes.outcome IS NOT NULL
    RETURNING run.schedule_id, run.state
), counted AS (
    SELECT schedule_id, bool_or(state = 'done') AS succeeded,
        (count(*) FILTER (WHERE state = 'failed'))::integer AS failed
    FROM settled GROUP BY schedule_id
)
UPDATE choir_control.schedules AS s
SET revision = revision + 1, failures = CASE WHEN succeeded THEN 0 ELSE failures + failed END,
    failed_at = CASE WHEN failed > 0 THEN $1 ELSE failed_at END
FROM counted WHERE s.schedule_id = counted.schedule_id
RETURNING s.schedule_id
"""
# The session that can take up prompts of an agent; `dm` is the conversation that it serves.
_LIVE = """LEFT JOIN choir_control.sessions AS live ON live.agent_id = s.agent_id
    AND live.status IN ('starting', 'active', 'crashed')
    AND NOT (live.status = 'crashed' AND live.end_reason IS NOT NULL)  -- a suspended session"""
# A prompt whose agent does not run is left out once it is recorded that it waits.
_READY = f"""
SELECT {COLUMNS}, live.dm AS live_dm FROM choir_control.schedules AS s {OPEN_RUNS} {_LIVE}
WHERE s.state = 'active' AND (
    (s.start_at <= $1 AND NOT (
        s.kind <> 'remind' AND live.dm IS DISTINCT FROM s.dm
        AND COALESCE(s.next_due = ANY(open.due_ats), false)))
    OR s.planned_at > $2 OR s.failures >= s.max_failures
    OR ((s.next_due IS NULL OR open.due_ats[1] < s.next_due) AND 'due' = ANY(open.states)
        AND NOT 'running' = ANY(open.states) AND (s.kind = 'remind' OR live.dm = s.dm)))
ORDER BY s.start_at, s.schedule_id LIMIT $3
"""  # noqa: S608 our own column names
_NEXT = """
SELECT (SELECT min(start_at) FROM choir_control.schedules
        WHERE state = 'active' AND start_at > $1) AS next_at,
    EXISTS (SELECT FROM choir_control.schedule_runs WHERE state IN ('due', 'running')) AS is_open
"""


@dataclass(frozen=True, slots=True)
class ReadySchedule:
    """A schedule that may have something to change, and the conversation that its agent serves now."""

    schedule: Schedule
    live_dm: str | None


@dataclass(frozen=True, slots=True)
class NextWork:
    """The next start of a run, and whether runs are open now."""

    at: datetime | None
    has_open_runs: bool


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A changed run as it is stored: with its id, and if it starts, with what it sends."""

    run_id: str
    due_at: datetime
    state: str
    detail: str
    words: str
    signal: str | None


class RunStore:
    """Store of changes to schedules and their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_ready(self, now: datetime) -> list[ReadySchedule]:
        """Return the schedules that may have something to change at `now`, at most `PAGE`."""
        rows = await self._database.fetch(_READY, now, now + CLOCK_TOLERANCE, PAGE)
        return [ReadySchedule(schedule_from_record(row), row["live_dm"]) for row in rows]

    async def find_live_dm(self, agent_id: str) -> str | None:
        """Return the conversation that an agent serves now, or None."""
        dm = await self._database.fetchval(
            f"SELECT live.dm FROM (SELECT $1::text AS agent_id) AS s {_LIVE}",  # noqa: S608
            agent_id,
        )
        return None if dm is None else str(dm)

    async def apply(
        self,
        schedule: Schedule,
        change: ScheduleChange,
        *,
        runs: Sequence[StartedRun],
        gateway: str,
        now: datetime,
    ) -> bool:
        """Store a change with its effects; return False if the schedule has changed meanwhile."""
        applied = await self._database.fetchval(
            _APPLY,
            schedule.schedule_id,
            schedule.revision,
            now,
            change.state,
            change.next_due,
            change.start_at,
            change.note,
            change.failures,
            change.notice,
            gateway,
            [run.run_id for run in runs],
            [run.due_at for run in runs],
            [run.state for run in runs],
            [run.detail for run in runs],
            [run.words for run in runs],
            [run.signal for run in runs],
            change.is_manual,
            [] if schedule.is_by_agent else find_hosts(schedule.text)[:MAX_HOSTS],
        )
        return bool(applied)

    async def settle(self, now: datetime) -> int:
        """Store the end of runs whose message was delivered or answered; return the changed schedules."""
        return len(await self._database.fetch(_SETTLE, now))

    async def read_next(self, now: datetime) -> NextWork:
        """Return what is to be waited for."""
        row = await self._database.fetchrow(_NEXT, now)
        if row is None:
            return NextWork(None, has_open_runs=False)
        return NextWork(row["next_at"], row["is_open"])
