"""The tables `budget_reservations` and `budget_notices`, and what has been spent of a budget.

One lock orders all reservations, so that concurrent ones cannot exceed a budget together.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from choir_common.postgres.pool import Connection, Database
from choir_common.wire.money import MoneyBudget, UsageKind
from choir_control.money.periods import Period

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('choir_control.budgets', 0))"
# A reservation whose epoch is over belonged to a call in flight when its agent died or was stopped. One that
# has expired belonged to a cancelled call, or to memory when it died. The provider may have billed them.
_COUNT_LOST = """
WITH lost AS (
    DELETE FROM choir_control.budget_reservations AS r
    WHERE r.expires_at < clock_timestamp() OR r.session_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM choir_control.sessions AS s WHERE s.session_id = r.session_id AND s.epoch = r.epoch
          AND s.status IN ('starting', 'active', 'stopping'))
    RETURNING *
)
INSERT INTO choir_control.ledger
    (entry_id, agent_id, session_id, lane, job_id, kind, name, model, at, day, cost_usd, source)
SELECT reservation, agent_id, session_id,
       CASE WHEN session_id IS NOT NULL THEN CASE WHEN job_id IS NULL THEN 'edge' ELSE 'core' END END, job_id,
       kind, name, model, at, day, amount_usd, 'reserved'
FROM lost ON CONFLICT (entry_id) DO NOTHING
"""
_INSERT = """
INSERT INTO choir_control.budget_reservations
    (reservation, session_id, epoch, agent_id, job_id, kind, name, model, day, amount_usd, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp() + $11 * interval '1 second')
ON CONFLICT (reservation) DO NOTHING
"""
_USED = """
SELECT (SELECT coalesce(sum(cost_usd), 0) FROM choir_control.ledger WHERE {rows}) AS spent,
       (SELECT coalesce(sum(amount_usd), 0) FROM choir_control.budget_reservations WHERE {rows}) AS reserved,
       (SELECT coalesce(sum(amount_usd), 0) FROM choir_control.budget_grants
        WHERE budget = $1 AND {grants}) AS granted
"""
# One notice for a budget and its period.
_NOTICE = """
INSERT INTO choir_control.budget_notices AS n (agent_id, budget, period) VALUES ($1, $2, $3)
ON CONFLICT (agent_id, budget) DO UPDATE SET period = excluded.period, at = clock_timestamp()
    WHERE n.period <> excluded.period
RETURNING choir_control.say($4, $5, $6)
"""
_IN_SESSION = "session_id = $2"
_IN_JOB = "session_id = $2 AND job_id = $3"
_OF_AGENT = "agent_id = $2 AND at >= $3 AND at < $4"
_OF_ALL = "at >= $2 AND at < $3"


@dataclass(frozen=True, slots=True)
class PlannedCharge:
    """The call that a reservation is for."""

    session_id: str | None
    """None: a call of memory, also in `epoch`."""
    epoch: int | None
    agent_id: str | None
    job_id: str | None
    kind: UsageKind
    name: str
    model: str
    day: date
    hold_s: float


@dataclass(frozen=True, slots=True)
class BudgetScope:
    """The calls that a budget is for."""

    budget: MoneyBudget
    session_id: str | None
    agent_id: str | None
    job_id: str | None
    period: Period | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNotice:
    """What a person is told when a budget does not allow a call of memory."""

    budget: MoneyBudget
    period: str
    """The end of its period with the limit in force: the notice is sent once for each."""
    dm: str
    gateway: str
    text: str


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """What a budget has been used for, in US dollars."""

    spent: Decimal
    reserved: Decimal
    granted: Decimal


class ReservationTransaction:
    """A transaction in which no other reservation is made."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def amount_of(self, reservation: str) -> Decimal | None:
        """Return the amount of a reservation that is stored, because its request is repeated; else None."""
        amount: Decimal | None = await self._connection.fetchval(
            "SELECT amount_usd FROM choir_control.budget_reservations WHERE reservation = $1",
            reservation,
        )
        return amount

    async def read_use(self, scope: BudgetScope) -> BudgetUsage:
        """Return the use of a budget."""
        rows, grants, values = _conditions(scope)
        statement = _USED.format(rows=rows, grants=grants)
        row = await self._connection.fetchrow(statement, scope.budget, *values)
        assert row is not None
        return BudgetUsage(row["spent"], row["reserved"], row["granted"])

    async def insert(self, reservation: str, new: PlannedCharge, amount: Decimal) -> None:
        """Store a reservation; one with the same id is stored once."""
        await self._connection.execute(
            _INSERT, reservation, new.session_id, new.epoch, new.agent_id, new.job_id, new.kind,
            new.name, new.model, new.day, amount, new.hold_s,
        )  # fmt: skip


class ReservationStore:
    """Reservations of money, and their conversion into ledger entries if their calls were lost."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[ReservationTransaction]:
        """Yield a transaction that is alone; lost calls are counted at its begin."""
        async with self._database.transaction() as connection:
            await connection.execute(_LOCK)
            await connection.execute(_COUNT_LOST)
            yield ReservationTransaction(connection)

    async def count_lost(self) -> None:
        """Charge the reservations of lost calls."""
        async with self.transaction():
            pass

    async def release(self, session_id: str | None, reservation: str) -> None:
        """Delete a reservation of a session, or of memory."""
        await self._database.execute(
            "DELETE FROM choir_control.budget_reservations "
            "WHERE reservation = $1 AND session_id IS NOT DISTINCT FROM $2",
            reservation,
            session_id,
        )

    async def notify_once(self, agent_id: str, notice: BudgetNotice) -> bool:
        """Store a notice for a conversation; return False if its budget and period had one already."""
        notice_dm = await self._database.fetchval(
            _NOTICE, agent_id, notice.budget, notice.period, notice.dm, notice.gateway, notice.text
        )
        return notice_dm is not None


def _conditions(scope: BudgetScope) -> tuple[str, str, tuple[datetime | str | None, ...]]:
    """Return the condition of rows, the condition of grants, and the parameters from $2 on."""
    match scope.budget:
        case "usd_per_call":
            # Nothing is spent before a call; a grant holds for the session.
            return f"false AND {_IN_SESSION}", _IN_SESSION, (scope.session_id,)
        case "usd_per_job":
            # A grant holds for every job of the session.
            return _IN_JOB, _IN_SESSION, (scope.session_id, scope.job_id)
        case "usd_per_session":
            return _IN_SESSION, _IN_SESSION, (scope.session_id,)
        case "usd_per_day" | "usd_per_month":
            assert scope.period is not None
            values = (scope.agent_id, scope.period.start, scope.period.end)
            return _OF_AGENT, _OF_AGENT, values
        case "total_usd_per_day" | "total_usd_per_month":
            assert scope.period is not None
            return _OF_ALL, _OF_ALL, (scope.period.start, scope.period.end)
