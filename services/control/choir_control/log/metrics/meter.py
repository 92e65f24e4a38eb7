"""Metrics of choird: counters for durable events, gauges for pending work.

The gauges are queried at each scrape: pending messages, deliveries, approvals and sessions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.metrics import FAST_BUCKETS, SLOW_BUCKETS, Metrics
from choir_common.postgres.pool import Database
from choir_common.wire.events import Event

KNOWN_LANES = ("edge", "core")
MAX_MODELS = 100
"""Models with their own time series. Providers choose the names, so the number must be bounded."""
MAX_MODEL_NAME = 80

_SESSIONS = """
SELECT CASE WHEN status = 'crashed' AND end_reason IS NOT NULL THEN 'suspended' ELSE status END AS status,
       count(*) AS n
FROM choir_control.sessions
WHERE status IN ('starting', 'active', 'stopping', 'crashed') GROUP BY 1
"""
_WAITING = """
SELECT
    (SELECT count(*) FROM choir_control.outbox WHERE status IN ('waiting', 'sending')) AS outbox,
    (SELECT count(*) FROM choir_control.sessions
        WHERE archived_at IS NULL AND ended_at IS NOT NULL
          AND memory_mode <> 'incognito') AS unarchived,
    (SELECT count(*) FROM choir_control.pending_approvals WHERE status = 'pending') AS approvals,
    count(*) AS inbox,
    coalesce(extract(epoch FROM now() - min(received_at)), 0)::float8 AS age
FROM choir_control.inbox WHERE answered_rev IS NULL AND closed_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The numbers read from the database at a scrape."""

    sessions: dict[str, int]
    """By status; live sessions only."""
    outbox: int
    inbox: int
    inbox_age_s: float
    approvals: int
    unarchived: int
    """Ended sessions that memory does not have yet."""


class GaugeStore:
    """Reader of the number of pending rows in control's tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_pending(self) -> PendingWork:
        """Return all numbers; raises Unavailable."""
        sessions = await self._database.fetch(_SESSIONS)
        row = await self._database.fetchrow(_WAITING)
        assert row is not None
        return PendingWork(
            sessions={session["status"]: session["n"] for session in sessions},
            outbox=row["outbox"],
            inbox=row["inbox"],
            inbox_age_s=row["age"],
            approvals=row["approvals"],
            unarchived=row["unarchived"],
        )


class ControlMetrics:
    """The metrics of choird."""

    def __init__(self, metrics: Metrics, gauges: GaugeStore) -> None:
        self._metrics = metrics
        self._gauges = gauges
        self._model_names: set[str] = set()
        self._heartbeats = metrics.counter("choir_heartbeats", "Heartbeats acknowledged.")
        self._append_s = metrics.histogram(
            "choir_append_seconds",
            "From a heartbeat's arrival to its acknowledgement.",
            FAST_BUCKETS,
        )
        self._events = metrics.counter("choir_events_appended", "Events made durable.", "type")
        self._tools = metrics.counter("choir_tool_calls", "Tool calls ended.", "tool", "status")
        self._tool_s = metrics.histogram(
            "choir_tool_call_seconds", "Duration of tool calls.", SLOW_BUCKETS, "tool"
        )
        self._models = metrics.counter("choir_model_calls", "Model calls answered.", "lane")
        self._model_s = metrics.histogram(
            "choir_model_call_seconds", "Duration of model calls.", SLOW_BUCKETS, "lane"
        )
        self._tokens = metrics.counter(
            "choir_model_tokens", "Tokens used.", "kind", "agent", "model"
        )
        self._replies = metrics.counter("choir_replies", "Replies to users.", "kind")
        self._presses = metrics.counter("choir_presses_refused", "Button presses without effect.")
        self._sessions = metrics.gauge("choir_sessions", "Live sessions.", "status")
        self._outbox = metrics.gauge("choir_outbox_depth", "Messages not delivered yet.")
        self._inbox = metrics.gauge(
            "choir_inbox_waiting", "Messages that no agent has answered yet."
        )
        self._inbox_age = metrics.gauge(
            "choir_inbox_oldest_seconds",
            "Age of the oldest message that no agent has answered yet.",
        )
        self._approvals = metrics.gauge("choir_approvals_pending", "Pending approval requests.")
        self._unarchived = metrics.gauge(
            "choir_sessions_to_archive", "Ended sessions that memory does not have yet."
        )

    def count_heartbeat(self, seconds: float) -> None:
        """Count an acknowledged heartbeat and its duration."""
        self._heartbeats.inc()
        self._append_s.observe(seconds)

    def count_refused_press(self) -> None:
        """Count the press of a button that was forged, used, late, or another user's."""
        self._presses.inc()

    def count_events(self, agent_id: str, events: Sequence[Event]) -> None:
        """Count events of an agent that just became durable."""
        for kind, count in Counter(event.type for event in events).items():
            self._events.labels(kind).inc(count)
        for event in events:
            match event.type:
                case "model_output":
                    self._note_model(event)
                    self._note_tokens(agent_id, event)
                case "memory_compacted" | "usage_recorded":
                    self._note_tokens(agent_id, event)
                case "tool_result_committed":
                    tool = str(event.payload.get("tool", ""))[:80]
                    self._tools.labels(tool, str(event.payload.get("status"))).inc()
                    self._tool_s.labels(tool).observe(_number(event, "duration_ms") / 1000)
                case "reply":
                    self._replies.labels(str(event.payload.get("kind"))).inc()
                case _:
                    pass

    async def render(self) -> bytes:
        """Return all metrics as text; raises Unavailable if the database cannot be queried."""
        pending = await self._gauges.read_pending()
        # A status without sessions would otherwise keep its last value.
        self._sessions.clear()
        for status, count in pending.sessions.items():
            self._sessions.labels(status).set(count)
        self._outbox.set(pending.outbox)
        self._inbox.set(pending.inbox)
        self._inbox_age.set(pending.inbox_age_s)
        self._approvals.set(pending.approvals)
        self._unarchived.set(pending.unarchived)
        return self._metrics.render()

    def _note_model(self, event: Event) -> None:
        # The full lane `core:<job>` would create a time series for every job.
        lane = event.lane.partition(":")[0]
        lane = lane if lane in KNOWN_LANES else "other"
        self._models.labels(lane).inc()
        self._model_s.labels(lane).observe(_number(event, "duration_ms") / 1000)

    def _note_tokens(self, agent_id: str, event: Event) -> None:
        model = str(event.payload.get("model") or "")[:MAX_MODEL_NAME]
        if not model:
            return  # compacted without a model
        if model not in self._model_names and len(self._model_names) >= MAX_MODELS:
            model = "other"
        self._model_names.add(model)
        for kind in ("prompt", "completion", "cached"):
            self._tokens.labels(kind, agent_id, model).inc(_number(event, f"{kind}_tokens"))


def _number(event: Event, name: str) -> float:
    """Return a number of the payload; values below 0 count as 0, because agents write the payload."""
    value = event.payload.get(name)
    return max(0.0, float(value)) if isinstance(value, int | float) else 0.0
