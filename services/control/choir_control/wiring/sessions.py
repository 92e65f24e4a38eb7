"""Wiring of the session lifecycle services, and of the tools that sessions run in control."""

import time

from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from choir_common.clients.memory import (
    MemoryAdminClient,
    NatsMemoryAdminClient,
    NatsMemoryClient,
)
from choir_common.clock import Clock
from choir_common.keyed_lock import KeyedLock
from choir_common.postgres.pool import Database
from choir_common.telemetry import Redactor
from choir_control.agents.egress_registry import EgressRegistry
from choir_control.agents.host_tools.browse import BrowseTool, make_browse_tool
from choir_control.agents.host_tools.execute import HostToolExecutor, ScheduleHandlers
from choir_control.agents.host_tools.log_search import LogSearchStore, LogSearchTool
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.agents.host_tools.money import MoneyTools
from choir_control.agents.operations.service import OperationService
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.closing import SessionCloser
from choir_control.agents.sessions.closing_store import ClosingStore
from choir_control.agents.sessions.conversation_binder import ConversationBinder
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.agents.sessions.crash_handling import CrashHandler
from choir_control.agents.sessions.crash_recovery import CrashRecovery
from choir_control.agents.sessions.forgetting import ForgetService
from choir_control.agents.sessions.idle_end import IdleSessionEnder
from choir_control.agents.sessions.launch import AgentLauncher, ControlListener, LaunchImageResolver
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.memory_modes import MemoryModeService
from choir_control.agents.sessions.overrides import SessionOverrides
from choir_control.agents.sessions.reports import LaneStatusRegistry
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.startup import StartupRecovery
from choir_control.agents.sessions.stop import AgentShutdown, SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.agents.sessions.workspace_reset import WorkspaceService
from choir_control.agents.sessions.workspace_traps import WorkspaceTrapService
from choir_control.agents.sessions.workspace_usage import WorkspaceUsageService
from choir_control.api_clients.client_tools import ClientToolService
from choir_control.configuration.current import ConfigService
from choir_control.conversations.agent_questions.service import AgentQuestionService
from choir_control.log.leases.conversations import ConversationStore
from choir_control.log.leases.store import LeaseStore
from choir_control.log.signals.notifier import OutboxRescanner
from choir_control.settings import ControlSettings
from choir_control.wiring.log import LogServices
from choir_control.wiring.money import MoneyServices


class HostToolServices:
    """The host tools (memory, browser, log, money, schedules, questions), and the clients behind them."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        configuration: ConfigService,
        database: Database,
        bus: Bus,
        redactor: Redactor,
        money: MoneyServices,
        schedules: ScheduleHandlers,
        questions: AgentQuestionService,
    ) -> None:
        self.questions = questions
        self.client_tools = ClientToolService(configuration, time.monotonic)
        self.memory = NatsMemoryClient(bus)
        self.memory_admin = NatsMemoryAdminClient(bus)
        self.browser = NatsBrowserClient(bus, optional=settings.browser_optional)
        self.memory_tools = MemoryTools(self.memory, redactor, configuration)
        self.browse_tool = make_browse_tool(self.browser, settings, configuration)
        self.executor = HostToolExecutor(
            memory=self.memory_tools,
            browse=self.browse_tool,
            log_search=LogSearchTool(LogSearchStore(database)),
            money=MoneyTools(money.budgets, money.costs),
            schedules=schedules,
            questions=questions,
            client_tools=self.client_tools,
        )


class SessionServices:
    """The session lifecycle services."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        database: Database,
        configuration: ConfigService,
        runtime: AgentRuntime,
        log: LogServices,
        image_resolver: LaunchImageResolver,
        operations: OperationService,
        outbox: OutboxRescanner,
        browse_tool: BrowseTool,
        memory_tools: MemoryTools,
        memory_admin: MemoryAdminClient,
        listener: ControlListener,
        egress: EgressRegistry,
        clock: Clock,
    ) -> None:
        self._configuration = configuration
        self._runtime = runtime
        self._log = log
        self._agent_locks = KeyedLock()
        leases = LeaseStore(database)
        self.store = SessionStore(database)
        self.lane_statuses = LaneStatusRegistry(clock)
        self.liveness = LivenessTracker(clock)
        self._closer = self._make_closer(database, outbox, clock)
        self._crash_handler = self._make_crash_handler()
        self.conversation_store = ConversationStore(database)
        self.conversation_binder = self._make_conversation_binder()
        self.conversations = self._make_conversation_reconciler()
        self.starter = self._make_starter(settings, image_resolver, listener, egress)
        self.signal_sender = self._make_signal_sender()
        self.overrides = self._make_overrides()
        self.stopper = self._make_stopper()
        self.memory_modes = self._make_memory_modes(outbox)
        self.shutdown = AgentShutdown(self.store, self.stopper)
        self.idle_ender = self._make_idle_ender(database)
        self.crash_recovery = self._make_crash_recovery(browse_tool, clock)
        self.startup = self._make_startup(leases, image_resolver)
        self.traps = WorkspaceTrapService(
            home=settings.home, configuration=configuration, sessions=self.store
        )
        self.usage = self._make_usage(outbox)
        self.workspaces = self._make_workspaces(settings, leases, operations)
        self.forgetting = self._make_forgetting(memory_admin, memory_tools, clock)

    def _make_crash_handler(self) -> CrashHandler:
        return CrashHandler(
            store=self.store,
            closer=self._closer,
            configuration=self._configuration,
            liveness=self.liveness,
        )

    def _make_closer(
        self, database: Database, outbox: OutboxRescanner, clock: Clock
    ) -> SessionCloser:
        return SessionCloser(
            store=ClosingStore(database, self._log.audit.keyring),
            sessions=self.store,
            authenticator=self._log.leases,
            notifier=self._log.notifier,
            clock=clock,
            outbox=outbox,
            runtime=self._runtime,
            archiver=self._log.archiver,
            content_eraser=self._log.content_eraser,
            configuration=self._configuration,
        )

    def _make_signal_sender(self) -> SignalSender:
        return SignalSender(
            store=self.store,
            signals=self._log.signals,
            notifier=self._log.notifier,
            signal_locks=self._log.signal_locks,
        )

    def _make_conversation_binder(self) -> ConversationBinder:
        return ConversationBinder(
            store=self.conversation_store,
            signal_locks=self._log.signal_locks,
            notifier=self._log.notifier,
            authenticator=self._log.leases,
        )

    def _make_conversation_reconciler(self) -> ConversationReconciler:
        return ConversationReconciler(
            sessions=self.store,
            store=self.conversation_store,
            binder=self.conversation_binder,
            configuration=self._configuration,
        )

    def _make_overrides(self) -> SessionOverrides:
        return SessionOverrides(
            store=self.store,
            configuration=self._configuration,
            authenticator=self._log.leases,
            signal_sender=self.signal_sender,
        )

    def _make_memory_modes(self, outbox: OutboxRescanner) -> MemoryModeService:
        return MemoryModeService(
            settings=self._log.memory_settings,
            sessions=self.store,
            events=self._log.events,
            configuration=self._configuration,
            starter=self.starter,
            stopper=self.stopper,
            authenticator=self._log.leases,
            outbox=outbox,
            conversations=self.conversation_store,
        )

    def _make_usage(self, outbox: OutboxRescanner) -> WorkspaceUsageService:
        return WorkspaceUsageService(
            configuration=self._configuration,
            sessions=self.store,
            notices=self._log.memory_settings,
            outbox=outbox,
            conversations=self.conversation_store,
        )

    def _make_workspaces(
        self, settings: ControlSettings, leases: LeaseStore, operations: OperationService
    ) -> WorkspaceService:
        return WorkspaceService(
            home=settings.home,
            configuration=self._configuration,
            leases=leases,
            starter=self.starter,
            stopper=self.stopper,
            operations=operations,
            traps=self.traps,
        )

    def _make_forgetting(
        self, memory_admin: MemoryAdminClient, memory_tools: MemoryTools, clock: Clock
    ) -> ForgetService:
        return ForgetService(
            sessions=self.store,
            resets=self._log.resets,
            starter=self.starter,
            stopper=self.stopper,
            archiver=self._log.archiver,
            configuration=self._configuration,
            memory=memory_admin,
            spaces=memory_tools,
            clock=clock,
        )

    def _make_starter(
        self,
        settings: ControlSettings,
        image_resolver: LaunchImageResolver,
        listener: ControlListener,
        egress: EgressRegistry,
    ) -> SessionStarter:
        launcher = AgentLauncher(
            settings=settings,
            configuration=self._configuration,
            runtime=self._runtime,
            image_resolver=image_resolver,
            listener=listener,
            egress=egress,
        )
        return SessionStarter(
            store=self.store,
            configuration=self._configuration,
            authenticator=self._log.leases,
            launcher=launcher,
            crash_handler=self._crash_handler,
            agent_locks=self._agent_locks,
            archiver=self._log.archiver,
            memory_settings=self._log.memory_settings,
            conversations=self.conversations,
        )

    def _make_stopper(self) -> SessionStopper:
        return SessionStopper(
            store=self.store,
            signal_sender=self.signal_sender,
            notifier=self._log.notifier,
            closer=self._closer,
            crash_handler=self._crash_handler,
            runtime=self._runtime,
            agent_locks=self._agent_locks,
            configuration=self._configuration,
        )

    def _make_idle_ender(self, database: Database) -> IdleSessionEnder:
        return IdleSessionEnder(
            closing_store=ClosingStore(database, self._log.audit.keyring),
            sessions=self.store,
            configuration=self._configuration,
            starter=self.starter,
            stopper=self.stopper,
        )

    def _make_crash_recovery(self, browse_tool: BrowseTool, clock: Clock) -> CrashRecovery:
        return CrashRecovery(
            store=self.store,
            configuration=self._configuration,
            starter=self.starter,
            crash_handler=self._crash_handler,
            runtime=self._runtime,
            agent_locks=self._agent_locks,
            notifier=self._log.notifier,
            clock=clock,
            liveness=self.liveness,
            browse_tool=browse_tool,
        )

    def _make_startup(
        self, leases: LeaseStore, image_resolver: LaunchImageResolver
    ) -> StartupRecovery:
        return StartupRecovery(
            store=self.store,
            configuration=self._configuration,
            closer=self._closer,
            crash_handler=self._crash_handler,
            starter=self.starter,
            runtime=self._runtime,
            leases=leases,
            image_resolver=image_resolver,
        )
