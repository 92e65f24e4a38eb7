"""Begin a session with what the one it continues had summed up: pure.

Called by `app` for the first event of a session; from there it is part of the log.
"""

import structlog
from pydantic import TypeAdapter, ValidationError

from choir_agent.log.state import EDGE
from choir_agent.memory.delta import ROOMIEST
from choir_common.wire.events import LaneSummary, ReferenceSummary
from choir_common.wire.json import JsonObject

log = structlog.get_logger("choir.agent.memory")

_SUMMARIES: TypeAdapter[tuple[LaneSummary, ...]] = TypeAdapter(tuple[LaneSummary, ...])
MAX_TEXT = 6_000
MAX_SESSIONS = 20


def seed_of(snapshot: JsonObject | None, continues: str | None) -> tuple[LaneSummary, ...]:
    """Return the edge lane's summary for a fresh session; empty when nothing is handed down.

    The last session's own summary says more about it than what had rolled off its window, so it takes
    the place of that text; the facts stay.
    """
    snapshot = snapshot or {}
    before = _edge_summary(snapshot)
    told = snapshot.get("summary")
    text = told.strip()[:MAX_TEXT] if isinstance(told, str) else ""
    text = text or before.summary
    if not text and not before.facts:
        return ()
    sessions = (*before.referenced_sessions, *((continues,) if continues else ()))
    summary = ReferenceSummary(
        summary=text,
        facts=before.facts,
        referenced_sessions=tuple(dict.fromkeys(sessions))[-MAX_SESSIONS:],
        referenced_events=before.referenced_events,
    )
    if len(summary.model_dump_json().encode()) > ROOMIEST:
        summary = summary.model_copy(update={"facts": (), "referenced_events": ()})
    # its events are of another log, so nothing of this one is covered yet
    return (LaneSummary(lane=EDGE, summary=summary, through_rev=0),)


def _edge_summary(snapshot: JsonObject) -> ReferenceSummary:
    try:
        lanes = _SUMMARIES.validate_python(snapshot.get("summaries") or (), strict=False)
    except ValidationError as error:
        log.warning("the last session's summaries cannot be read", reason=str(error)[:200])
        return ReferenceSummary()
    edge = (lane.summary for lane in lanes if lane.lane == EDGE)
    return next(edge, ReferenceSummary())
