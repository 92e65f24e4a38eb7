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
from choir_control.conversations.message_outcome import (
    DETAIL_CASES,
    OUTCOME_CASES,
    OUTCOME_JOINS,
    UNANSWERED,
)
from choir_control.conversations.schedules.planning import CLOCK_TOLERANCE
from choir_control.conversations.schedules.records import Schedule, ScheduleChange
from choir_control.conversations.schedules.store import COLUMNS, OPEN_RUNS, schedule_from_record
from choir_control.log.leases.conversations import conversations_sql

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
# `OUTCOME_CASES` tell how a prompt ended.
_SETTLE = f"""
WITH outcomes AS (
    SELECT run.run_id, CASE
        WHEN s.kind = 'remind' AND told.outbox_id IS NULL THEN 'done'
        WHEN s.kind = 'remind' AND told.status = 'delivered' THEN 'done'
        WHEN s.kind = 'remind' AND told.status = 'undeliverable' THEN 'failed'
        WHEN s.kind = 'remind' THEN NULL
        {OUTCOME_CASES} END AS outcome, CASE
        WHEN told.status = 'undeliverable' THEN left(told.detail, 500)
        {DETAIL_CASES}
        WHEN s.kind <> 'remind' AND asked.answered_rev IS NULL THEN '{UNANSWERED}'
        ELSE run.detail END AS detail
    FROM choir_control.schedule_runs AS run JOIN choir_control.schedules AS s USING (schedule_id)
    LEFT JOIN choir_control.outbox AS told ON told.outbox_id = run.outbox_id
    LEFT JOIN choir_control.inbox AS asked ON asked.inbox_id = run.run_id
    {OUTCOME_JOINS}
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
"""  # noqa: S608 our own SQL
# The session that can take up prompts of an agent.
_LIVE = """LEFT JOIN choir_control.sessions AS live ON live.agent_id = s.agent_id
    AND live.status IN ('starting', 'active', 'crashed')
    AND NOT (live.status = 'crashed' AND live.end_reason IS NOT NULL)  -- a suspended session"""
# The conversation of the schedule if the session serves it, or else the home conversation of the session.
_LIVE_DM = f"CASE WHEN s.dm = ANY({conversations_sql('live')}) THEN s.dm ELSE live.dm END"
# A prompt whose agent does not run is left out once it is recorded that it waits.
_READY = f"""
SELECT {COLUMNS}, {_LIVE_DM} AS live_dm FROM choir_control.schedules AS s {OPEN_RUNS} {_LIVE}
WHERE s.state = 'active' AND (
    (s.start_at <= $1 AND NOT (
        s.kind <> 'remind' AND {_LIVE_DM} IS DISTINCT FROM s.dm
        AND COALESCE(s.next_due = ANY(open.due_ats), false)))
    OR s.planned_at > $2 OR s.failures >= s.max_failures
    OR ((s.next_due IS NULL OR open.due_ats[1] < s.next_due) AND 'due' = ANY(open.states)
        AND NOT 'running' = ANY(open.states) AND (s.kind = 'remind' OR {_LIVE_DM} = s.dm)))
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

    async def find_live_dm(self, agent_id: str, dm: str | None = None) -> str | None:
        """Return `dm` if an agent serves it now, or else its home conversation; None if it does not run."""
        live_dm = await self._database.fetchval(
            f"SELECT {_LIVE_DM} FROM (SELECT $1::text AS agent_id, $2::text AS dm) AS s {_LIVE}",  # noqa: S608
            agent_id,
            dm,
        )
        return None if live_dm is None else str(live_dm)

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
