"""What a session is to control: one row, and the grant of one epoch."""

from dataclasses import dataclass
from datetime import datetime

from choir_common.eventlog.chain import Head
from choir_common.wire.config import Config
from choir_common.wire.operator import SessionStatus, SessionView
from choir_common.wire.rpc import ResourceBindings
from choir_control.images.port import SessionImage
from choir_control.leases.token import LeaseToken

RUNNING = ("starting", "active", "stopping")
LIVE = (*RUNNING, "crashed")
RESUMABLE = ("crashed", "suspended")
"""Between two epochs: a crashed session is resumed by itself, a suspended one by a start."""
SHUT_DOWN = "Choir was shut down"
"""Why a session ended whose agent is to run again when choird does."""
UPDATED = "it is updated to a new image"
TAKEN_BACK = "its new image did not come up"
RESTARTED = "it is restarted"
SAME_IMAGE = (SHUT_DOWN, RESTARTED)
"""Why sessions end whose agent is started again with the image it had."""
STARTED_AGAIN = (*SAME_IMAGE, UPDATED, TAKEN_BACK)
"""Why sessions end whose agent is started right after; choird does it if it died in between."""


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
    """In force now."""
    started_with: ResourceBindings
    """What a restart keeps: without what was changed since (`model set`, `voice set`)."""
    settings_rev: int
    gateway: str
    resumes: int
    """Crashes since something was completed."""
    idle_resumes: int
    """Crashes since a user's message was last taken up, whatever was completed."""
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    """Why it ended, or is being stopped."""
    last_heartbeat_at: datetime
    image: SessionImage | None
    """What it was started with; none for a session of before this was kept."""
    rehearsal: bool = False
    """It was started with the rehearsal model."""

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
            rehearsal=self.rehearsal,
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to run one epoch of a session."""

    session: SessionRow
    token: LeaseToken


def is_rehearsal(config: Config, bindings: ResourceBindings) -> bool:
    """Tell whether a session with these bindings talks with the scripted rehearsal model."""
    return config.models[bindings.llm].provider == "rehearsal"


def resources_of(agent_id: str, bindings: ResourceBindings, config: Config) -> list[str]:
    """Return the exclusive resources that an agent with these bindings needs (spec 6.4).

    Each running agent has a browser context of its own, named for it.
    """
    account = config.email_accounts.get(bindings.email) if bindings.email else None
    wanted = {
        "workspace": bindings.workspace,
        "dm": bindings.dm,
        "git_identity": bindings.git_identity,
        "notion": bindings.notion,
        "email": bindings.email if account and account.sharing == "exclusive" else None,
        "browser_context": agent_id,
    }
    return [f"{kind}:{name}" for kind, name in wanted.items() if name is not None]
