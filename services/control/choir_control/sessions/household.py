"""Composition of the session lifecycle services. Called by `app`."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_control.configuration.current import Configuration
from choir_control.leases.guard import LeaseGuard
from choir_control.leases.store import LeaseStore
from choir_control.operations.run import Operations
from choir_control.runtimes.port import AgentRuntime, HttpWay
from choir_control.sessions.archive_port import Archive
from choir_control.sessions.boot import Boot
from choir_control.sessions.change import Changes
from choir_control.sessions.closing import Closing
from choir_control.sessions.closing_store import ClosingStore
from choir_control.sessions.crash import Crashes
from choir_control.sessions.launch import Launcher
from choir_control.sessions.mend import Mender
from choir_control.sessions.outfit import Outfitter
from choir_control.sessions.reset import Workspaces
from choir_control.sessions.shut_down import ShutDown
from choir_control.sessions.start import Starter
from choir_control.sessions.stop import Stopper
from choir_control.sessions.store import SessionStore
from choir_control.sessions.tell import Messenger
from choir_control.sessions.turns import AgentTurns
from choir_control.sessions.vitals import Vitals
from choir_control.settings import ControlSettings
from choir_control.signals.bell import Bell
from choir_control.signals.order import SignalOrder
from choir_control.signals.store import SignalStore


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Dependencies of the session services."""

    settings: ControlSettings
    database: Database
    configuration: Configuration
    runtime: AgentRuntime
    guard: LeaseGuard
    signals: SignalStore
    order: SignalOrder
    bell: Bell
    clock: Clock
    outfitter: Outfitter
    operations: Operations
    rescan: Callable[[str], None]
    """Makes the outbox check a conversation (DM) for new rows."""
    release: Callable[[str], Coroutine[None, None, None]]
    """Frees the host resources of an agent after its process has ended."""
    archive: Archive
    """Passes ended sessions on to memory."""
    way: Callable[[], HttpWay | None]
    """Returns the address at which agents reach control over HTTP, or None for their own sockets.

    """


class Household:
    """The session lifecycle services."""

    def __init__(self, around: Surroundings) -> None:
        turns, runtime, leases = AgentTurns(), around.runtime, LeaseStore(around.database)
        self.store = SessionStore(around.database)
        closing = _closing(around)
        self.vitals = Vitals(around.clock)
        crashes = Crashes(self.store, closing, around.configuration, self.vitals)
        launcher = Launcher(
            around.settings, around.configuration, runtime, around.outfitter, around.way
        )
        self.starter = _starter(around, self.store, launcher, crashes, turns)
        self.messenger = Messenger(self.store, around.signals, around.bell, around.order)
        self.changes = Changes(self.store, around.configuration, around.guard, self.messenger)
        self.stopper = Stopper(
            self.store,
            self.messenger,
            around.bell,
            closing,
            crashes,
            runtime,
            turns,
            around.configuration,
        )
        self.shut_down = ShutDown(self.store, self.stopper)
        self.mender = Mender(
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
        self.workspaces = Workspaces(
            around.settings.home,
            around.configuration,
            leases,
            self.starter,
            self.stopper,
            around.operations,
        )


def _starter(
    around: Surroundings,
    store: SessionStore,
    launcher: Launcher,
    crashes: Crashes,
    turns: AgentTurns,
) -> Starter:
    configuration, archive = around.configuration, around.archive
    return Starter(store, configuration, around.guard, launcher, crashes, turns, archive)


def _boot(
    around: Surroundings,
    store: SessionStore,
    closing: Closing,
    crashes: Crashes,
    starter: Starter,
) -> Boot:
    leases = LeaseStore(around.database)
    return Boot(
        store,
        around.configuration,
        closing,
        crashes,
        starter,
        around.runtime,
        leases,
        around.outfitter,
    )


def _closing(around: Surroundings) -> Closing:
    def ended(agent_id: str, session_id: str) -> None:
        around.runtime.end_session(agent_id, session_id)
        around.archive.wake()

    return Closing(
        ClosingStore(around.database),
        SessionStore(around.database),
        around.guard,
        around.bell,
        around.clock,
        around.rescan,
        ended,
    )
