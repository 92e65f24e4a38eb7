"""What a session is to control: one row, and the grant of one epoch."""

from dataclasses import dataclass
from datetime import datetime

from choir_common.eventlog.chain import Head
from choir_common.wire.operator import SessionStatus, SessionView
from choir_common.wire.rpc import ResourceBindings
from choir_control.leases.token import LeaseToken

RUNNING = ("starting", "active", "stopping")
LIVE = (*RUNNING, "crashed")
SHUT_DOWN = "Choir was shut down"
"""Why a session ended whose agent is to run again when choird does."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A row of `sessions`."""

    session_id: str
    agent_id: str
    status: SessionStatus
    epoch: int
    head: Head
    continues: str | None
    bindings: ResourceBindings
    gateway: str
    resumes: int
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    """Why it ended, or is being stopped."""
    last_heartbeat_at: datetime

    def view(self) -> SessionView:
        """Return what an operator sees."""
        return SessionView(
            session_id=self.session_id,
            agent_id=self.agent_id,
            status=self.status,
            epoch=self.epoch,
            head_rev=self.head.rev,
            head_hash=self.head.hash,
            continues=self.continues,
            started_at=self.started_at,
            ended_at=self.ended_at,
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to run one epoch of a session."""

    session: SessionRow
    token: LeaseToken


def resources_of(bindings: ResourceBindings) -> list[str]:
    """Return the exclusive resources that bindings need (spec 6.4)."""
    return [f"workspace:{bindings.workspace}", f"dm:{bindings.dm}"]
