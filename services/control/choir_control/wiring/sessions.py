"""Composition of the session lifecycle services. Called by `app`."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from choir_common.clock import Clock
from choir_common.keyed_lock import KeyedLock
from choir_common.postgres.pool import Database
from choir_control.agents.operations.service import OperationService
from choir_control.agents.runtimes.port import AgentRuntime, ControlAddress
from choir_control.agents.sessions.closing import SessionCloser
from choir_control.agents.sessions.closing_store import ClosingStore
from choir_control.agents.sessions.crash_handling import CrashHandler
from choir_control.agents.sessions.crash_recovery import CrashRecovery
from choir_control.agents.sessions.launch import AgentLauncher, LaunchImageResolver
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.overrides import SessionOverrides
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.start import SessionArchive, SessionStarter
from choir_control.agents.sessions.startup import StartupRecovery
from choir_control.agents.sessions.stop import AgentShutdown, SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.agents.sessions.workspace_reset import WorkspaceService
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.store import LeaseStore
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore
from choir_control.settings import ControlSettings


@dataclass(frozen=True, slots=True)
class SessionDependencies:
    """Dependencies of the session services."""

    settings: ControlSettings
    database: Database
    configuration: ConfigService
    runtime: AgentRuntime
    guard: LeaseAuthenticator
    signals: SignalStore
    order: KeyedLock
    bell: Notifier
    clock: Clock
    outfitter: LaunchImageResolver
    operations: OperationService
    rescan: Callable[[str], None]
    """Makes the outbox check a conversation (DM) for new rows."""
    release: Callable[[str], Coroutine[None, None, None]]
    """Frees the host resources of an agent after its process has ended."""
    archive: SessionArchive
    """Passes ended sessions on to memory."""
    way: Callable[[], ControlAddress | None]
    """Returns the address at which agents reach control over HTTP, or None for their own sockets.

    """


class SessionServices:
    """The session lifecycle services."""

    def __init__(self, around: SessionDependencies) -> None:
        turns, runtime, leases = KeyedLock(), around.runtime, LeaseStore(around.database)
        self.store = SessionStore(around.database)
        closing = _closing(around)
        self.vitals = LivenessTracker(around.clock)
        crashes = CrashHandler(self.store, closing, around.configuration, self.vitals)
        launcher = AgentLauncher(
            around.settings, around.configuration, runtime, around.outfitter, around.way
        )
        self.starter = _starter(around, self.store, launcher, crashes, turns)
        self.messenger = SignalSender(self.store, around.signals, around.bell, around.order)
        self.changes = SessionOverrides(
            self.store, around.configuration, around.guard, self.messenger
        )
        self.stopper = SessionStopper(
            self.store,
            self.messenger,
            around.bell,
            closing,
            crashes,
            runtime,
            turns,
            around.configuration,
        )
        self.shut_down = AgentShutdown(self.store, self.stopper)
        self.mender = CrashRecovery(
            self.store,
            around.configuration,
            self.starter,
            crashes,
            runtime,
            turns,
            around.bell,
            around.clock,
            self.vitals,
            around.release,
        )
        self.boot = _boot(around, self.store, closing, crashes, self.starter)
        self.workspaces = WorkspaceService(
            around.settings.home,
            around.configuration,
            leases,
            self.starter,
            self.stopper,
            around.operations,
        )


def _starter(
    around: SessionDependencies,
    store: SessionStore,
    launcher: AgentLauncher,
    crashes: CrashHandler,
    turns: KeyedLock,
) -> SessionStarter:
    configuration, archive = around.configuration, around.archive
    return SessionStarter(store, configuration, around.guard, launcher, crashes, turns, archive)


def _boot(
    around: SessionDependencies,
    store: SessionStore,
    closing: SessionCloser,
    crashes: CrashHandler,
    starter: SessionStarter,
) -> StartupRecovery:
    leases = LeaseStore(around.database)
    return StartupRecovery(
        store,
        around.configuration,
        closing,
        crashes,
        starter,
        around.runtime,
        leases,
        around.outfitter,
    )


def _closing(around: SessionDependencies) -> SessionCloser:
    def ended(agent_id: str, session_id: str) -> None:
        around.runtime.archive_log(agent_id, session_id)
        around.archive.wake()

    return SessionCloser(
        ClosingStore(around.database),
        SessionStore(around.database),
        around.guard,
        around.bell,
        around.clock,
        around.rescan,
        ended,
    )
