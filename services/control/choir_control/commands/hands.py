"""Dependencies of the command handlers. Built by `app`; every handler takes it as its first argument."""

from dataclasses import dataclass

from choir_control.approvals.decide import Desk
from choir_control.approvals.store import ApprovalStore
from choir_control.commands.choices import Choices
from choir_control.commands.errands import Errands
from choir_control.configuration.current import Configuration
from choir_control.configuration.staging import Staging
from choir_control.eventlog.store import EventStore
from choir_control.operations.run import Operations
from choir_control.outbox.store import OutboxStore
from choir_control.rollout.begin import Rollout
from choir_control.secrets.vault import Vault
from choir_control.sessions.change import Changes
from choir_control.sessions.reset import Workspaces
from choir_control.sessions.roster import Roster
from choir_control.sessions.start import Starter
from choir_control.sessions.stop import Stopper
from choir_control.sessions.store import SessionStore


@dataclass(frozen=True, slots=True)
class Hands:
    """The services that commands call; the operator API uses the same ones."""

    configuration: Configuration
    staging: Staging
    vault: Vault
    roster: Roster
    starter: Starter
    stopper: Stopper
    changes: Changes
    sessions: SessionStore
    events: EventStore
    approvals: ApprovalStore
    desk: Desk
    outbox: OutboxStore
    rollout: Rollout
    operations: Operations
    workspaces: Workspaces
    errands: Errands
    choices: Choices
