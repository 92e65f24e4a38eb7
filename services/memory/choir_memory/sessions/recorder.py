"""Store units that the caller has prepared: imports, and conversations from other systems.

The units and their embedding jobs are stored in one transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from choir_common.errors import InvalidRequest, NotFound
from choir_common.postgres.pool import Database
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit, UnitsRecorded
from choir_memory.documents.model import TRUST, Tier, UnitRow, document_id
from choir_memory.documents.store import DocumentStore, prepare_units
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.schema.extraction_queue_store import enqueue_extraction
from choir_memory.schema.store import SpaceRegistry, resume_service_role, take_agent_role
from choir_memory.sessions.store import SessionStore

MAX_METADATA = 20_000
"""Bytes of JSON; metadata describes a unit and must not contain one."""


@dataclass(frozen=True, slots=True)
class UnitRecorder:
    """Writer of prepared units; `queue` is told how many documents were queued."""

    database: Database
    spaces: SpaceRegistry
    queue: EmbeddingQueue

    async def record(self, request: RecordUnits) -> UnitsRecorded:
        """Store the units and queue them for embedding; a unit with the same text keeps its vector.

        Raises InvalidRequest, Conflict (two units at one position) or NotFound (the session was erased).
        """
        validate_units(request.units)
        ids = [document_id(request.session_id, "unit", unit.id) for unit in request.units]
        if not ids:
            return UnitsRecorded(document_ids=(), written=0)
        await self.spaces.ensure(request.agent_id)
        async with self.database.transaction() as connection:
            started_at = min(unit.at for unit in request.units)
            state = await SessionStore(connection, request.agent_id).get_or_create(
                request.session_id, started_at
            )
            if state.erased:
                raise NotFound(f"Session {request.session_id} was erased from memory.")
            tier: Tier = "long_term_detail" if state.promoted else "mid_term"
            rows = [_row(request.session_id, unit, tier) for unit in request.units]
            units = await prepare_units(rows)
            await take_agent_role(connection, request.agent_id)
            changed_ids = await DocumentStore(connection, request.agent_id).upsert(units)
            await resume_service_role(connection)
            await enqueue_all(connection, request.agent_id, "session", changed_ids)
            if changed_ids:
                await enqueue_extraction(connection, request.agent_id)
        self.queue.notify(len(changed_ids))
        return UnitsRecorded(document_ids=tuple(map(str, ids)), written=len(changed_ids))


def validate_units(units: Sequence[SessionUnit]) -> None:
    """Validate the units; raises InvalidRequest naming the fault."""
    if len({unit.id for unit in units}) < len(units):
        raise InvalidRequest("Two units have the same id.")
    for unit in units:
        metadata = orjson.dumps(unit.metadata)
        if not unit.text.strip():
            raise InvalidRequest(f"The text of unit {unit.id} is blank.")
        if len(metadata) > MAX_METADATA:
            raise InvalidRequest(
                f"The metadata of unit {unit.id} is larger than {MAX_METADATA} bytes."
            )
        if "\x00" in f"{unit.id}{unit.text}{unit.speaker or ''}" or b"\\u0000" in metadata:
            raise InvalidRequest("The NUL character cannot be stored.")


def _row(session_id: str, unit: SessionUnit, tier: Tier) -> UnitRow:
    return UnitRow(
        document_id=document_id(session_id, "unit", unit.id),
        session_id=session_id,
        tier=tier,
        chunk_index=unit.position,
        kind=unit.kind,
        text=unit.text,
        happened_at=unit.at,
        ended_at=unit.ended_at,
        speaker=unit.speaker,
        origin=unit.origin,
        trust=TRUST[unit.origin] if unit.trust is None else unit.trust,
        metadata={**unit.metadata, "unit": unit.id},
    )
