"""Small fakes for the collaborators of the agent's objects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from choir_agent.budgets.money import PlannedCall, Reservation
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_log import MAX_DURABLE_BYTES, SessionLog
from choir_agent.log.session_state import SessionState
from choir_agent.settings import CurrentSettings
from choir_common.clock import Clock, SystemClock
from choir_common.redactor import Redactor
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_common.wire.events import EventPayload


class NoTokenCounter:
    """A token counter that is never available, so that the provider's counts or estimates are used."""

    async def count(self, *texts: str) -> tuple[int, ...] | None:
        return None


class NoMoneyBudget:
    """Reservations of money where no budget in money is set."""

    @asynccontextmanager
    async def reserve(self, call: PlannedCall) -> AsyncIterator[Reservation]:
        yield Reservation()


class RecordingCommitter:
    """A log that only remembers the payloads, with their lanes."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.commits: list[tuple[str, EventPayload]] = []

    def commit(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int:
        self.commits.append((lane, payload))
        return len(self.commits)


class FixedSettings:
    """Settings that never change."""

    def __init__(self, settings: AgentSettings) -> None:
        self._current = CurrentSettings(settings)

    def current(self) -> CurrentSettings:
        return self._current


class FixedHeartbeatSettings:
    """Settings of heartbeats that never change."""

    version = 1

    def __init__(self, interval_s: float = 0.2) -> None:
        self._interval_s = interval_s

    def heartbeat_interval_s(self) -> float:
        return self._interval_s

    def mark_stale(self) -> None:
        pass


class EmptySession:
    """A session without events."""

    state = SessionState()


class SilentListener:
    """Ignores committed events."""

    def on_event(self, event: CommittedEvent) -> None:
        pass


class SilentStatus:
    """Ignores the states of lanes."""

    def record_state(self, lane: str, state: str, *, final: bool = False) -> None:
        pass


class UnderscoreNames:
    """Tool names with underscores instead of dots."""

    def model_name(self, name: str) -> str | None:
        return name.replace(".", "_")


class NoToolNames:
    """No tool is known."""

    def model_name(self, name: str) -> str | None:
        return None


def settings_with(budgets: Budgets) -> FixedSettings:
    """Return settings in which only the budgets matter."""
    return FixedSettings(
        AgentSettings(
            model_name="m",
            model=ModelConfig(model="m", endpoint="http://127.0.0.1:1/v1"),
            budgets=budgets,
            heartbeat_interval_ms=1000,
            rate_limit_retry_ms=1,
            event_window=50,
        )
    )


def silent_log(
    session_id: str = "ses", clock: Clock | None = None, kept_bytes: int = MAX_DURABLE_BYTES
) -> SessionLog:
    """Return an empty log to which nobody listens."""
    return SessionLog(
        session_id,
        clock=clock or SystemClock(),
        listener=SilentListener(),
        redactor=Redactor(),
        kept_bytes=kept_bytes,
    )
