"""Store of the table `schedules`: creation, edits, reads and deletion. `RunStore` has all other changes."""

from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import assert_never

from choir_common.postgres.pool import Database, Record
from choir_common.wire.schedules import RunView, TimingKind
from choir_control.conversations.schedules.records import (
    AGENT,
    EditedSchedule,
    OpenRun,
    Schedule,
    ScheduleDraft,
    ScheduleRules,
)
from choir_control.conversations.schedules.timing import (
    Cron,
    Interval,
    Once,
    Timing,
    parse_duration,
)

MAX_ACTIVE = 1_000
"""Active and paused schedules of one agent."""
MAX_ROWS = 10_000
COLUMNS = """s.schedule_id, s.revision, s.agent_id, s.dm, s.kind, s.body, s.timing, s.value, s.zone, s.anchor,
    s.state, s.note, s.catch_up, s.grace, s.overlap, s.jitter, s.max_failures, s.failures, s.failed_at,
    s.next_due, s.planned_at, s.created_by, s.text_by, s.skill, s.words, s.created_at, open.run_ids,
    open.due_ats, open.states"""
OPEN_RUNS = """LEFT JOIN LATERAL (
        SELECT array_agg(run_id ORDER BY due_at) AS run_ids, array_agg(due_at ORDER BY due_at) AS due_ats,
            array_agg(r.state ORDER BY due_at) AS states
        FROM choir_control.schedule_runs AS r
        WHERE r.schedule_id = s.schedule_id AND r.state IN ('due', 'running')
    ) AS open ON true"""

# A repeated request finds the schedule of the first one.
_CREATE = """
WITH added AS (
    INSERT INTO choir_control.schedules (agent_id, dm, kind, body, timing, value, zone, anchor, catch_up,
        grace, overlap, jitter, max_failures, next_due, start_at, planned_at, created_by, words,
        request_key, created_at, text_by, skill, state)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $16, $17,
        $21, $22
    WHERE (SELECT count(*) FROM choir_control.schedules WHERE agent_id = $1 AND state <> 'ended') < $20
    ON CONFLICT (request_key) DO NOTHING
    RETURNING schedule_id
)
SELECT schedule_id FROM added
UNION ALL SELECT schedule_id FROM choir_control.schedules WHERE request_key = $19
LIMIT 1
"""
# A waiting run has had no effect, so the new time replaces it.
_EDIT = """
WITH edited AS (
    UPDATE choir_control.schedules SET revision = revision + 1, body = $4, timing = $5, value = $6, zone = $7,
        anchor = $8, catch_up = $9, grace = $10, overlap = $11, jitter = $12, max_failures = $13,
        next_due = $14, start_at = $15, text_by = $16, words = $17, note = $18, failures = 0, planned_at = $3
    WHERE schedule_id = $1 AND revision = $2
    RETURNING schedule_id
), skipped AS (
    UPDATE choir_control.schedule_runs AS run
    SET state = 'skipped', detail = 'the time of the schedule was changed', ended_at = $3
    FROM edited WHERE run.run_id = ANY($19::text[]) AND run.state = 'due'
)
SELECT true FROM edited
"""
# A run whose schedule was deleted counts as one of the agent's. Triggers bring words from outside.
_SOURCE = """
SELECT i.text AS words,
    starts_with(i.update_id, 'trigger:')
        OR starts_with(i.update_id, 'schedule:') AND COALESCE(starts_with(s.text_by, $3), true)
        AS is_unattended
FROM choir_control.inbox AS i
LEFT JOIN choir_control.schedule_runs AS run ON run.run_id = i.inbox_id
LEFT JOIN choir_control.schedules AS s USING (schedule_id)
WHERE i.inbox_id = $1 AND i.dm = $2
"""


@dataclass(frozen=True, slots=True)
class RequestSource:
    """The words that an agent answers when it asks for a schedule."""

    words: str
    is_unattended: bool
    """Whether no person wrote them: they are those of a trigger or of the agent's own schedule, or there are
    none."""


class ScheduleStore:
    """Store of the table `schedules`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, draft: ScheduleDraft, *, first: datetime, start_at: datetime, now: datetime
    ) -> int | None:
        """Store a schedule and return its id, or None if the agent has too many."""
        rules = draft.rules
        schedule_id = await self._database.fetchval(
            _CREATE,
            draft.agent_id,
            draft.dm,
            draft.kind,
            draft.text,
            draft.timing_kind,
            draft.value,
            draft.zone,
            _anchor(draft.timing, now),
            rules.catch_up,
            rules.grace,
            rules.overlap,
            rules.jitter,
            rules.max_failures,
            first,
            start_at,
            now,
            draft.created_by,
            draft.words,
            draft.request_key,
            MAX_ACTIVE,
            draft.skill,
            "paused" if draft.paused else "active",
        )
        return None if schedule_id is None else int(schedule_id)

    async def edit(self, edited: EditedSchedule, now: datetime) -> bool:
        """Store new values; return False if the schedule has changed meanwhile."""
        schedule, rules = edited.schedule, edited.schedule.rules
        is_stored = await self._database.fetchval(
            _EDIT,
            schedule.schedule_id,
            schedule.revision,
            now,
            schedule.text,
            schedule.timing_kind,
            schedule.value,
            schedule.zone,
            _anchor(schedule.timing, now),
            rules.catch_up,
            rules.grace,
            rules.overlap,
            rules.jitter,
            rules.max_failures,
            schedule.next_due,
            edited.start_at,
            schedule.text_by,
            schedule.words,
            schedule.note,
            [run.run_id for run in edited.skipped],
        )
        return bool(is_stored)

    async def find(self, schedule_id: int) -> Schedule | None:
        """Return a schedule, or None."""
        row = await self._database.fetchrow(
            f"SELECT {COLUMNS} FROM choir_control.schedules AS s {OPEN_RUNS} WHERE s.schedule_id = $1",  # noqa: S608
            schedule_id,
        )
        return None if row is None else schedule_from_record(row)

    async def list_all(self, agent_id: str | None, *, dm: str | None = None) -> list[Schedule]:
        """Return the schedules of an agent or of all, oldest first; `dm` selects those of a conversation.

        Of very many, the oldest ended ones are left out.
        """
        rows = await self._database.fetch(
            f"""
            SELECT {COLUMNS} FROM choir_control.schedules AS s {OPEN_RUNS}
            WHERE ($1::text IS NULL OR s.agent_id = $1) AND ($2::text IS NULL OR s.dm = $2)
            ORDER BY s.state = 'ended', s.schedule_id DESC LIMIT $3
            """,  # noqa: S608 our own column names
            agent_id,
            dm,
            MAX_ROWS,
        )
        return sorted(map(schedule_from_record, rows), key=attrgetter("schedule_id"))

    async def list_created_by(self, author: str) -> list[Schedule]:
        """Return the schedules that somebody created, oldest first."""
        rows = await self._database.fetch(
            f"""
            SELECT {COLUMNS} FROM choir_control.schedules AS s {OPEN_RUNS}
            WHERE s.created_by = $1 ORDER BY s.schedule_id LIMIT $2
            """,  # noqa: S608 our own column names
            author,
            MAX_ROWS,
        )
        return [schedule_from_record(row) for row in rows]

    async def list_page(self, agent_id: str | None, *, cursor: int, limit: int) -> list[Schedule]:
        """Return schedules of an agent or of all, oldest first, beginning with the number `cursor`."""
        rows = await self._database.fetch(
            f"""
            SELECT {COLUMNS} FROM choir_control.schedules AS s {OPEN_RUNS}
            WHERE ($1::text IS NULL OR s.agent_id = $1) AND s.schedule_id >= $2
            ORDER BY s.schedule_id LIMIT $3
            """,  # noqa: S608 our own column names
            agent_id,
            cursor,
            limit,
        )
        return [schedule_from_record(row) for row in rows]

    async def count_of_agent(self, agent_id: str, *, without_key: str) -> int:
        """Return how many active and paused schedules an agent has created, without one request."""
        count = await self._database.fetchval(
            """
            SELECT count(*) FROM choir_control.schedules
            WHERE agent_id = $1 AND created_by = $2 AND state <> 'ended'
              AND request_key IS DISTINCT FROM $3
            """,
            agent_id,
            f"{AGENT}{agent_id}",
            without_key,
        )
        return int(count)

    async def find_source(self, inbox_id: str | None, dm: str) -> RequestSource:
        """Return the words of a message of a conversation, and whether a person is behind them."""
        row = await self._database.fetchrow(_SOURCE, inbox_id, dm, AGENT)
        return RequestSource("", is_unattended=True) if row is None else RequestSource(**row)

    async def list_runs(self, schedule_id: int, limit: int) -> list[RunView]:
        """Return the newest runs of a schedule, the newest first."""
        rows = await self._database.fetch(
            """
            SELECT run_id, due_at, state, detail, manual, started_at, ended_at
            FROM choir_control.schedule_runs WHERE schedule_id = $1 ORDER BY due_at DESC LIMIT $2
            """,
            schedule_id,
            limit,
        )
        return [RunView(**row) for row in rows]

    async def delete(self, schedule_id: int) -> bool:
        """Delete a schedule and its runs; return False if there is none."""
        deleted = await self._database.fetchval(
            "DELETE FROM choir_control.schedules WHERE schedule_id = $1 RETURNING true", schedule_id
        )
        return bool(deleted)


def schedule_from_record(row: Record) -> Schedule:
    """Return the schedule of a row with `COLUMNS`."""
    open_runs = zip(row["run_ids"] or (), row["due_ats"] or (), row["states"] or (), strict=True)
    return Schedule(
        schedule_id=row["schedule_id"],
        revision=row["revision"],
        agent_id=row["agent_id"],
        dm=row["dm"],
        kind=row["kind"],
        text=row["body"],
        skill=row["skill"],
        timing_kind=row["timing"],
        value=row["value"],
        zone=row["zone"],
        timing=_timing(row["timing"], row),
        rules=ScheduleRules(
            catch_up=row["catch_up"],
            grace=row["grace"],
            overlap=row["overlap"],
            jitter=row["jitter"],
            max_failures=row["max_failures"],
        ),
        state=row["state"],
        note=row["note"],
        failures=row["failures"],
        failed_at=row["failed_at"],
        next_due=row["next_due"],
        planned_at=row["planned_at"],
        created_by=row["created_by"],
        text_by=row["text_by"],
        words=row["words"],
        created_at=row["created_at"],
        open_runs=tuple(OpenRun(*run) for run in open_runs),
    )


def _anchor(timing: Timing, now: datetime) -> datetime:
    match timing:
        case Once(at):
            return at
        case Interval(anchor, _):
            return anchor
        case Cron():
            return now
        case _:
            assert_never(timing)


def _timing(kind: TimingKind, row: Record) -> Timing:
    match kind:
        case "in" | "at":
            return Once(row["anchor"])
        case "every":
            return Interval(row["anchor"], parse_duration(row["value"]))
        case "cron":
            return Cron(row["value"], row["zone"])
        case _:
            assert_never(kind)
