"""Store of the table `approval_effects`: the stage of each approved request.

Each step is one statement that names the stage it leaves: of two concurrent callers, one updates no
row.
"""

from dataclasses import dataclass
from typing import Literal

import orjson

from choir_common.eventlog.chain import canonical_json
from choir_common.postgres.pool import Database
from choir_common.wire.model import JsonObject
from choir_common.wire.signals import InjectSignal
from choir_control.approvals.store import Approval
from choir_control.log.leases.conversations import conversations_sql

Stage = Literal["waiting", "applying", "applied", "failed", "reverting", "rolled_back"]


@dataclass(frozen=True, slots=True)
class Effect:
    """The stage of an approved request."""

    approval_id: str
    digest: str
    stage: Stage
    plan: JsonObject | None
    undo: JsonObject | None


@dataclass(frozen=True, slots=True)
class NotifiedSession:
    """A session that is notified of the result."""

    session_id: str
    dm: str
    """Its home conversation."""
    dms: tuple[str, ...] = ()
    """All its conversations."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """Result of a step: for the record, and as text for people."""

    stage: Stage
    detail: str
    notice: str


class EffectStore:
    """The table `approval_effects`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_unfinished(self) -> list[str]:
        """Return the ids of approved requests that are not finished, oldest decision first."""
        rows = await self._database.fetch(
            "SELECT approval_id FROM choir_control.approval_effects "
            "JOIN choir_control.pending_approvals USING (approval_id) "
            "WHERE stage IN ('waiting', 'applying', 'reverting') ORDER BY resolved_at LIMIT 100"
        )
        return [row["approval_id"] for row in rows]

    async def start_or_resume(self, approval_id: str) -> Effect | None:
        """Start a waiting effect or return an unfinished one; None when it is finished."""
        row = await self._database.fetchrow(
            """
            UPDATE choir_control.approval_effects
            SET stage = CASE stage WHEN 'waiting' THEN 'applying' ELSE stage END,
                began_at = COALESCE(began_at, clock_timestamp())
            WHERE approval_id = $1 AND stage IN ('waiting', 'applying', 'reverting')
            RETURNING approval_id, digest, stage, plan, undo
            """,
            approval_id,
        )
        if row is None:
            return None
        return Effect(
            row["approval_id"],
            row["digest"],
            row["stage"],
            _json(row["plan"]),
            _json(row["undo"]),
        )

    async def store_plan(self, approval_id: str, plan: JsonObject) -> bool:
        """Store the plan before it is executed; return False if another plan was stored first."""
        updated_id = await self._database.fetchval(
            "UPDATE choir_control.approval_effects SET plan = $2::json "
            "WHERE approval_id = $1 AND stage = 'applying' AND plan IS NULL RETURNING approval_id",
            approval_id,
            canonical_json(plan).decode(),
        )
        return updated_id is not None

    async def get_applied_plan(self, approval_id: str) -> JsonObject | None:
        """Return the plan of an applied request, or None."""
        plan = await self._database.fetchval(
            "SELECT plan FROM choir_control.approval_effects WHERE approval_id = $1 AND stage = 'applied'",
            approval_id,
        )
        return _json(plan)

    async def start_rollback(self, approval_id: str, undo: JsonObject, by: str) -> bool:
        """Start the rollback of an applied request; return False if it was already started."""
        updated_id = await self._database.fetchval(
            """
            UPDATE choir_control.approval_effects SET stage = 'reverting', undo = $2::json, undone_by = $3
            WHERE approval_id = $1 AND stage = 'applied' RETURNING approval_id
            """,
            approval_id,
            canonical_json(undo).decode(),
            by,
        )
        return updated_id is not None

    async def find_live_session(self, agent_id: str) -> NotifiedSession | None:
        """Return the session of an agent that accepts signals now, or None."""
        row = await self._database.fetchrow(
            f"SELECT session_id, dm, {conversations_sql('s')} AS dms FROM choir_control.sessions AS s "  # noqa: S608
            "WHERE agent_id = $1 AND status IN ('starting', 'active', 'crashed') "
            "ORDER BY started_at DESC LIMIT 1",
            agent_id,
        )
        if row is None:
            return None
        return NotifiedSession(row["session_id"], row["dm"], tuple(row["dms"]))

    async def finish_stage(
        self,
        effect: Effect,
        approval: Approval,
        result: StageResult,
        listener: NotifiedSession | None,
        user_text: str,
    ) -> bool:
        """End a step and, in the same statement, notify the session and the conversation.

        The session is told the notice in English, the conversation `user_text`, which is in its language.
        Returns False if the step was already ended.
        """
        updated_id = await self._database.fetchval(
            """
            WITH done AS (
                UPDATE choir_control.approval_effects
                SET stage = $3, detail = $4, ended_at = clock_timestamp()
                WHERE approval_id = $1 AND stage = $2 RETURNING approval_id
            ), told AS (
                INSERT INTO choir_control.signals (session_id, body)
                SELECT $5::text, $6::json FROM done WHERE $5::text IS NOT NULL
            ), said AS (
                SELECT choir_control.say($7, $8, $9) AS dm FROM done
            )
            SELECT approval_id FROM done, said
            """,
            effect.approval_id,
            effect.stage,
            result.stage,
            result.detail,
            listener and listener.session_id,
            _inform_agent(approval, result, listener).model_dump_json(),
            approval.dm,
            approval.gateway,
            user_text,
        )
        return updated_id is not None


def _inform_agent(
    approval: Approval, result: StageResult, listener: NotifiedSession | None
) -> InjectSignal:
    dm = approval.further_dm or ""
    is_served = listener is not None and dm in listener.dms and dm != listener.dm
    return InjectSignal(
        text=f"About an approved request: {result.notice}", dm=dm if is_served else ""
    )


def _json(text: str | None) -> JsonObject | None:
    return None if text is None else orjson.loads(text)
