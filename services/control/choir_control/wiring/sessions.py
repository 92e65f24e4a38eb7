"""Composition of the session lifecycle services."""

from choir_common.clock import Clock
from choir_common.keyed_lock import KeyedLock
from choir_common.postgres.pool import Database
from choir_control.agents.host_tools.browse import BrowseTool
from choir_control.agents.operations.service import OperationService
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.closing import SessionCloser
from choir_control.agents.sessions.closing_store import ClosingStore
from choir_control.agents.sessions.crash_handling import CrashHandler
from choir_control.agents.sessions.crash_recovery import CrashRecovery
from choir_control.agents.sessions.launch import AgentLauncher, ControlListener, LaunchImageResolver
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.overrides import SessionOverrides
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.startup import StartupRecovery
from choir_control.agents.sessions.stop import AgentShutdown, SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.agents.sessions.workspace_reset import WorkspaceService
from choir_control.configuration.current import ConfigService
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.store import LeaseStore
from choir_control.log.signals.notifier import Notifier, OutboxRescanner
from choir_control.log.signals.store import SignalStore
from choir_control.settings import ControlSettings


class SessionServices:
    """The session lifecycle services."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        database: Database,
        configuration: ConfigService,
        runtime: AgentRuntime,
        authenticator: LeaseAuthenticator,
        signals: SignalStore,
        signal_locks: KeyedLock,
        notifier: Notifier,
        clock: Clock,
        image_resolver: LaunchImageResolver,
        operations: OperationService,
        outbox: OutboxRescanner,
        browse_tool: BrowseTool,
        archiver: SessionArchiver,
        listener: ControlListener,
    ) -> None:
        agent_locks, leases = KeyedLock(), LeaseStore(database)
        self.store = SessionStore(database)
        self.vitals = LivenessTracker(clock)
        closer = SessionCloser(
            store=ClosingStore(database),
            sessions=self.store,
            authenticator=authenticator,
            notifier=notifier,
            clock=clock,
            outbox=outbox,
            runtime=runtime,
            archiver=archiver,
        )
        crash_handler = CrashHandler(
            store=self.store, closer=closer, configuration=configuration, liveness=self.vitals
        )
        self.starter = SessionStarter(
            store=self.store,
            configuration=configuration,
            authenticator=authenticator,
            launcher=AgentLauncher(
                settings=settings,
                configuration=configuration,
                runtime=runtime,
                image_resolver=image_resolver,
                listener=listener,
            ),
            crash_handler=crash_handler,
            agent_locks=agent_locks,
            archiver=archiver,
        )
        self.messenger = SignalSender(
            store=self.store, signals=signals, notifier=notifier, signal_locks=signal_locks
        )
        self.changes = SessionOverrides(
            store=self.store,
            configuration=configuration,
            authenticator=authenticator,
            signal_sender=self.messenger,
        )
        self.stopper = SessionStopper(
            store=self.store,
            signal_sender=self.messenger,
            notifier=notifier,
            closer=closer,
            crash_handler=crash_handler,
            runtime=runtime,
            agent_locks=agent_locks,
            configuration=configuration,
        )
        self.shut_down = AgentShutdown(self.store, self.stopper)
        self.mender = CrashRecovery(
            store=self.store,
            configuration=configuration,
            starter=self.starter,
            crash_handler=crash_handler,
            runtime=runtime,
            agent_locks=agent_locks,
            notifier=notifier,
            clock=clock,
            liveness=self.vitals,
            browse_tool=browse_tool,
        )
        self.boot = StartupRecovery(
            store=self.store,
            configuration=configuration,
            closer=closer,
            crash_handler=crash_handler,
            starter=self.starter,
            runtime=runtime,
            leases=leases,
            image_resolver=image_resolver,
        )
        self.workspaces = WorkspaceService(
            home=settings.home,
            configuration=configuration,
            leases=leases,
            starter=self.starter,
            stopper=self.stopper,
            operations=operations,
        )
