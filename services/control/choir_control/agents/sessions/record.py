"""In-memory model of a session row, and the grant of one epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.eventlog.chain import LogHead
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.memory_modes import DEFAULT_MODE, MemoryMode
from choir_common.wire.operator import SessionStatus, SessionView
from choir_common.wire.rpc import ResourceBindings
from choir_control.images.builder import SessionImage
from choir_control.log.leases.authentication import LeaseToken

RUNNING_STATUSES = ("starting", "active", "stopping")
LIVE_STATUSES = (*RUNNING_STATUSES, "crashed")
RESUMABLE_STATUSES = ("crashed", "suspended")
"""Statuses without a running epoch. A crashed session is resumed automatically, a suspended one by a start.

"""
REASON_SHUTDOWN = _("Choir was shut down")
"""End reason of sessions stopped by a shutdown; their agents start again with choird."""
REASON_UPDATE = _("it is updated to a new image")
REASON_ROLLBACK = _("its new image did not come up")
REASON_RESTART = _("it is restarted")
REASON_FORGET = _("a person had its conversation erased")
REASON_MEMORY_MODE = _("its conversation switches to another memory mode")
REASON_IDLE = _("it was idle")
STOPPED_BY = _("stopped by a user in the conversation {dm}")
"""Why a session ended that was stopped by a command, which is answered in that conversation."""
KEEP_IMAGE_REASONS = (REASON_SHUTDOWN, REASON_RESTART, REASON_IDLE)
"""End reasons after which the agent is started again with the same image."""
CONTINUED_REASONS = (*KEEP_IMAGE_REASONS, REASON_UPDATE, REASON_ROLLBACK, REASON_FORGET)
"""End reasons after which the next session continues the conversation, also in mode `incognito`."""
START_AGAIN_REASONS = (*CONTINUED_REASONS, REASON_MEMORY_MODE)
"""End reasons that a start follows immediately. If choird died in between, the next startup starts the agent.

"""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A row of the table `sessions`."""

    session_id: str
    agent_id: str
    status: SessionStatus
    epoch: int
    head: LogHead
    continues: str | None
    bindings: ResourceBindings
    """Bindings in force now."""
    initial_bindings: ResourceBindings
    """Bindings that a restart keeps: without the changes made by `model set` and `voice set`."""
    settings_rev: int
    gateway: str
    crashes: int
    """Crashes since a turn or job was last completed."""
    idle_crashes: int
    """Crashes since a user message was last consumed, regardless of completed work."""
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    """Why the session ended or is being stopped."""
    last_heartbeat_at: datetime
    image: SessionImage | None
    """Image it was started with; None for sessions created before this column existed."""
    rehearsal: bool = False
    """Whether it was started with the rehearsal model."""
    memory_mode: MemoryMode = DEFAULT_MODE
    """Fixed from its start to its end."""

    @property
    def is_live(self) -> bool:
        """Return whether the session has neither ended nor been suspended."""
        return self.status in LIVE_STATUSES

    def view(self, further_dms: Sequence[str] = ()) -> SessionView:
        """Return the operator API's view of the session."""
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
            end_reason=self.end_reason or "",
            rehearsal=self.rehearsal,
            memory_mode=self.memory_mode,
            conversations=(self.bindings.dm, *further_dms),
        )


@dataclass(frozen=True, slots=True)
class EpochGrant:
    """The right to run one epoch of a session."""

    session: SessionRow
    token: LeaseToken


def is_rehearsal(config: Config, bindings: ResourceBindings) -> bool:
    """Return whether these bindings use the rehearsal model."""
    return config.models[bindings.llm].provider_properties.is_rehearsal


def exclusive_resources(agent_id: str, bindings: ResourceBindings, config: Config) -> list[str]:
    """Return the names of the exclusive resources that an agent with these bindings must lease.

    Every running agent has its own browser context, named after the agent.
    """
    account = config.email_accounts.get(bindings.email) if bindings.email else None
    resources = {
        "workspace": bindings.workspace,
        "dm": bindings.dm,
        "git_identity": bindings.git_identity,
        "notion": bindings.notion,
        "email": bindings.email if account and account.sharing == "exclusive" else None,
        "browser_context": agent_id,
    }
    return [f"{kind}:{name}" for kind, name in resources.items() if name is not None]
