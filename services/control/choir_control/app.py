"""Composition root of choird: builds all objects, opens them in order and closes them in reverse.

Called by `__main__` and by tests. Nothing is created at import. Order: `docs/design/lifecycle.md`.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from datetime import timedelta

import structlog
from fastapi import APIRouter

from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from choir_common.clients.memory import (
    NatsCollectionsClient,
    NatsMemoryAdminClient,
    NatsMemoryClient,
    NatsSessionMemoryClient,
)
from choir_common.clock import Clock, SystemClock
from choir_common.http.client import make_client
from choir_common.http.listen import bind_unix, serve
from choir_common.http.service_app import ReadinessCheck
from choir_common.keyed_lock import KeyedLock
from choir_common.metrics import Metrics
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.telemetry import Redactor
from choir_control import VERSION
from choir_control.agents.host_tools.browse import make_browse_tool
from choir_control.agents.host_tools.execute import HostToolExecutor
from choir_control.agents.host_tools.log_search import LogSearchStore, LogSearchTool
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.agents.operations.service import OperationService
from choir_control.agents.operations.store import OperationStore
from choir_control.agents.rollout.service import AgentRedeployer, UpdateService
from choir_control.agents.rollout.update import AgentUpdater
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.handshake import HandshakeService
from choir_control.agents.sessions.launch import LaunchImageResolver
from choir_control.agents.sessions.reports import LaneStatusRegistry
from choir_control.api.bus import make_bus_endpoints
from choir_control.api.http_apps import (
    AgentApiDependencies,
    AgentSockets,
    make_agent_app,
    make_host_app,
)
from choir_control.api.log_stream import LogStreamer
from choir_control.api.operator.agents import agent_routes, choice_routes, signal_routes
from choir_control.api.operator.approvals import approval_routes
from choir_control.api.operator.authentication import OperatorAuthentication, is_descendant
from choir_control.api.operator.memory import (
    CollectionRouteDependencies,
    MemoryRouteDependencies,
    collection_routes,
    memory_routes,
)
from choir_control.api.operator.operations import operation_routes, rollout_routes, workspace_routes
from choir_control.api.operator.outbox import outbox_routes
from choir_control.api.operator.sessions import session_routes
from choir_control.api.operator.system import (
    command_routes,
    dm_routes,
    status_routes,
)
from choir_control.api.readiness import ReadinessChecks
from choir_control.api.rpc.verbs import AgentApi
from choir_control.api.transports.listener import TcpListener
from choir_control.approvals import service
from choir_control.approvals.proposals.config_proposal import ConfigApplier
from choir_control.approvals.service import ApprovalService
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.secrets.reload import RESERVED_SECRETS
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.startup import read_startup_config
from choir_control.configuration.version_store import ConfigVersionStore
from choir_control.conversations.commands.context import BackgroundCommands, CommandContext
from choir_control.conversations.commands.dialogue import DialogueState
from choir_control.conversations.commands.handler import CommandHandler
from choir_control.conversations.inbox.service import InboxService
from choir_control.conversations.services import ConversationDependencies, ConversationServices
from choir_control.conversations.session_overview import AgentOverview
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.archiving.rehearsal_eraser import RehearsalEraser
from choir_control.log.archiving.store import ArchiveStore
from choir_control.log.eventlog.recovery_store import LogTailReader
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.store import LeaseStore
from choir_control.log.metrics.meter import ControlMetrics, GaugeStore
from choir_control.log.retention import job
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore
from choir_control.log.signals.streams import SignalStreams
from choir_control.periodic import run_periodically
from choir_control.settings import ControlSecrets, ControlSettings
from choir_control.wiring import proposals
from choir_control.wiring.configuration import ConfigurationServices
from choir_control.wiring.images import ImageServices
from choir_control.wiring.sessions import SessionServices

log = structlog.get_logger("choir.control")

SERVICE = "choir-control"
METRICS_TOKEN = "metrics-token"  # noqa: S105 - a secret's name


class ControlApp:
    """The choird application: the constructor builds it without any I/O; `run` opens and serves
    it."""

    def __init__(
        self,
        settings: ControlSettings,
        secrets: ControlSecrets,
        runtime: AgentRuntime,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Build all objects. `redactor` filters the log lines and learns every secret."""
        self._redactor = redactor or Redactor()
        self._clock = clock or SystemClock()
        self._settings = settings
        self._secrets = secrets
        self._runtime = runtime
        self._started = False
        self.database = Database(
            *settings.database_address(secrets),
            size=settings.database_connections,
            application=SERVICE,
        )
        self._bus = Bus(settings.nats_url, secrets.nats_token, SERVICE)
        self._memory = NatsMemoryClient(self._bus)
        self._memory_tools = MemoryTools(self._memory, self._redactor)
        self._gateway = make_client(
            settings.gateway_address, headers=_bearer(secrets.operator_token)
        )
        self.configuration = ConfigService(
            settings.config_file, settings.default_model, ConfigVersionStore(self.database)
        )
        self._build_services()
        self._build_http_apps()

    def _build_services(self) -> None:
        bell, signals = Notifier(), SignalStore(self.database)
        self._tcp = TcpListener(self._settings)
        self._guard = LeaseAuthenticator(LeaseStore(self.database))
        ways = ConversationDependencies(
            self._settings.home, self.database, self.configuration, self._bus, self._gateway
        )
        talks = self._conversations = ConversationServices(ways)
        self._outbox = talks.outbox
        self._followers = SignalStreams(
            store=signals, notifier=bell, authenticator=self._guard, file_fetcher=talks.fetching
        )
        self._status_board, order = LaneStatusRegistry(self._clock), KeyedLock()
        self._events, self._log_search = EventStore(self.database), LogSearchStore(self.database)
        self._retention = job.RetentionJob(self.database, self._events, self.configuration)
        self._metrics = Metrics(SERVICE)
        self._meter = ControlMetrics(self._metrics, GaugeStore(self.database))
        self._approvals = talks.approvals
        self._approval_service = ApprovalService(
            self._approvals, order.of, bell.notify, self._outbox.rescan, self._wake_proposal_worker
        )
        self._expiry = service.ApprovalExpiry(
            self._approvals, self._approval_service, self._approval_timeout, self._clock
        )
        self._archives = ArchiveStore(self.database)
        self.archivist = self._make_archivist()
        self._browser = NatsBrowserClient(self._bus)
        self._browse = make_browse_tool(self._browser, self._settings, self.configuration)
        named = {k: v for k, v in self._secrets.secrets.items() if k not in RESERVED_SECRETS}
        self._vault = SecretStore({**named, **self._secrets.supplied}, self._redactor)
        self._keys = GitCredentials(self._vault, self._settings.known_hosts)
        self._images = ImageServices(self._settings, self.configuration, self._keys)
        self._operations = OperationService(
            store=OperationStore(self.database), outbox=self._outbox, cards=talks.activity
        )
        self._sessions = self._make_sessions(signals, order, bell)
        self._agent_sockets = AgentSockets(self._settings.agent_socket_dir)
        self._configuration_wiring = self._make_configuration(signals, order, bell)
        self._roster = AgentOverview(
            self.configuration,
            self._sessions.store,
            self._conversations.inbox_store,
            self._status_board,
            self._runtime,
            self._sessions.vitals,
            self._configuration_wiring.config_notifier.version_of,
        )
        self._rollout = self._make_rollout()
        self._proposals = self._make_proposals(order, bell)
        obey = CommandHandler(
            talks.inbox_store, self._command_context(), bell.notify, order.of
        ).handle
        self._inbox = InboxService(
            talks.inbox_store, self.configuration, obey, bell.notify, order.of, self._redactor
        )

    def _make_archivist(self) -> SessionArchiver:
        sessions = NatsSessionMemoryClient(self._bus)
        rehearsals = RehearsalEraser(self.database, sessions, NatsMemoryAdminClient(self._bus))
        return SessionArchiver(
            store=self._archives,
            events=self._events,
            memory=sessions,
            configuration=self.configuration,
            rehearsals=rehearsals,
        )

    def _make_sessions(
        self, signals: SignalStore, order: KeyedLock, bell: Notifier
    ) -> SessionServices:
        return SessionServices(
            settings=self._settings,
            database=self.database,
            configuration=self.configuration,
            runtime=self._runtime,
            authenticator=self._guard,
            signals=signals,
            signal_locks=order,
            notifier=bell,
            clock=self._clock,
            image_resolver=LaunchImageResolver(
                home=self._settings.home,
                configuration=self.configuration,
                image_store=self._images.image_store,
                builder=self._images.builder,
            ),
            operations=self._operations,
            outbox=self._outbox,
            browse_tool=self._browse,
            archiver=self.archivist,
            listener=self._tcp,
        )

    def _make_configuration(
        self, signals: SignalStore, order: KeyedLock, bell: Notifier
    ) -> ConfigurationServices:
        return ConfigurationServices(
            configuration=self.configuration,
            vault=self._vault,
            secrets_json=self._settings.secrets_json,
            deployment_secrets=self._secrets.supplied,
            sessions=self._sessions.store,
            signals=signals,
            signal_locks=order,
            notifier=bell,
            bus=self._bus,
            clock=self._clock,
            gateway=self._gateway,
            certificates=self._tcp,
            sockets=self._agent_sockets,
            images=self._images,
        )

    def _make_rollout(self) -> UpdateService:
        sessions, foundry = self._sessions, self._images
        updater = AgentUpdater(
            configuration=self.configuration,
            build_service=foundry.build_service,
            image_store=foundry.image_store,
            sessions=sessions.store,
            starter=sessions.starter,
            stopper=sessions.stopper,
        )
        return UpdateService(self.configuration, updater, self._operations)

    def _make_proposals(self, order: KeyedLock, bell: Notifier) -> proposals.ProposalServices:
        return proposals.ProposalServices(
            proposals.ProposalDependencies(
                home=self._settings.home,
                config_file=self._settings.config_file,
                environment=os.environ,
                database=self.database,
                configuration=self.configuration,
                approvals=self._approvals,
                clock=self._clock,
                conversation_locks=order.of,
                notify_session=bell.notify,
                notify_conversation=self._outbox.rescan,
                config_applier=ConfigApplier(self._configuration_wiring.staging),
                redeployer=AgentRedeployer(self._rollout, self._operations),
                credentials=self._keys,
            )
        )

    def _wake_proposal_worker(self) -> None:
        self._proposals.worker.wake()

    def _command_context(self) -> CommandContext:
        sessions = self._sessions
        return CommandContext(
            configuration=self.configuration,
            staging=self._configuration_wiring.staging,
            vault=self._vault,
            roster=self._roster,
            starter=sessions.starter,
            stopper=sessions.stopper,
            session_settings=sessions.changes,
            sessions=sessions.store,
            events=self._events,
            approvals=self._approvals,
            approval_service=self._approval_service,
            outbox=self._conversations.outbox_store,
            rollout=self._rollout,
            operations=self._operations,
            workspaces=sessions.workspaces,
            background=BackgroundCommands(self._operations),
            dialogue=DialogueState(),
        )

    def _build_http_apps(self) -> None:
        self._readiness = ReadinessChecks(
            self.database,
            self._bus,
            self._memory,
            self._browser,
            self._gateway,
            self._runtime.unavailable_reason,
            lambda: self._started,
            self._archives.describe_backlog,
        )
        door = AgentApiDependencies(self._guard, self._verbs(), self._followers, self._metrics)
        admission = OperatorAuthentication(self._secrets.operator_token, is_descendant)
        self.agent_app = make_agent_app(
            VERSION, ReadinessCheck(self._readiness.required_statuses), door
        )
        self.host_app = make_host_app(
            VERSION,
            self._readiness,
            door,
            admission,
            self._gateway,
            self._operator_routers(),
            self._meter,
            lambda: self._vault.get(METRICS_TOKEN),
        )

    def _verbs(self) -> AgentApi:
        sessions = self._sessions
        return AgentApi(
            greeting=HandshakeService(
                sessions=sessions.store,
                logs=LogTailReader(self.database, self._events),
                configuration=self.configuration,
                image_store=self._images.image_store,
            ),
            configuration=self.configuration,
            vault=self._vault,
            news=self._configuration_wiring.config_notifier,
            appender=self._conversations.appender(self._events, self._meter),
            approvals=self._proposals.intake,
            board=self._status_board,
            stopper=sessions.stopper,
            vitals=sessions.vitals,
            hosttools=HostToolExecutor(
                memory=self._memory_tools,
                browse=self._browse,
                log_search=LogSearchTool(self._log_search),
            ),
        )

    def _operator_routers(self) -> Sequence[APIRouter]:
        sessions, roster = self._sessions, self._roster
        return (
            status_routes(
                self._settings.home,
                VERSION,
                self.configuration,
                roster,
                self._readiness.all_statuses,
            ),
            approval_routes(self._approvals, self._approval_service, self._proposals.worker),
            dm_routes(self.configuration, sessions.store),
            command_routes(self.configuration),
            agent_routes(self.configuration, roster, sessions.starter, sessions.stopper),
            signal_routes(roster, sessions.messenger, self._events),
            choice_routes(self.configuration, sessions.changes),
            session_routes(sessions.store, self._events, self._log_streams()),
            operation_routes(self._operations),
            rollout_routes(self._rollout),
            workspace_routes(sessions.workspaces),
            memory_routes(
                MemoryRouteDependencies(
                    self.configuration,
                    self._memory_tools,
                    self._memory,
                    NatsMemoryAdminClient(self._bus),
                    NatsSessionMemoryClient(self._bus),
                )
            ),
            collection_routes(
                CollectionRouteDependencies(
                    self.configuration,
                    self._memory_tools,
                    NatsCollectionsClient(self._bus),
                    self._redactor,
                )
            ),
            outbox_routes(self._conversations.outgoing),
            *self._configuration_wiring.routes(),
        )

    def _log_streams(self) -> LogStreamer:
        store = self._sessions.store
        return LogStreamer(store, self._events, lambda: self._followers.closing)

    def _approval_timeout(self) -> timedelta:
        return timedelta(milliseconds=self.configuration.current.config.approval_timeout_ms)

    async def run(self, stop: asyncio.Event, hurry: asyncio.Event | None = None) -> None:
        """Start in order, serve until `stop` is set, close in reverse order.

        The agents are stopped first, which may take `agents_stop_s` seconds; `hurry` cuts that short.
        Raises StartupError when it cannot start.
        """
        found = read_startup_config(self.configuration)
        async with contextlib.AsyncExitStack() as stack:
            host = self._bind(stack, found.agents)
            stack.push_async_callback(self._gateway.aclose)
            stack.push_async_callback(self._browse.aclose)
            await stack.enter_async_context(self.database)
            log.info("database connected")
            files = read_migrations("choir_control.migrations")
            applied = await migrate(self.database, "choir_control", files)
            log.info("database schema ready", applied=applied)
            candidate = await found.or_last_valid(self.configuration)
            self._agent_sockets.bind(sorted(candidate.config.agents))
            snapshot = await self.configuration.put_in_force(candidate)
            await self._configuration_wiring.secrets.remember_startup_values()
            stack.push_async_callback(self._runtime.close)
            await self._operations.put_in_order()
            orphans, stale = await self._sessions.boot.put_in_order()
            log.info("sessions in order", orphans_removed=orphans, stale_sessions=stale)
            async with asyncio.TaskGroup() as tasks:
                closed = asyncio.Event()
                tasks.create_task(self._tcp.serve(self.host_app, closed))
                tasks.create_task(serve(self.host_app, host, closed))
                self._agent_sockets.start_serving(tasks, self.agent_app, closed)
                work = tasks.create_task(self._run_background_tasks(snapshot))
                await stop.wait()
                log.info("choird stops")
                most_s = self._settings.agents_stop_s
                await self._sessions.shut_down.run(most_s, hurry or asyncio.Event())
                closed.set()
                self._followers.close()
                work.cancel()

    def _bind(
        self, stack: contextlib.AsyncExitStack, agent_ids: Sequence[str]
    ) -> list[socket.socket]:
        """Bind every socket before any other step, so that a port in use leaves nothing half started."""
        settings = self._settings

        def keep(bound: socket.socket) -> socket.socket:
            return stack.enter_context(contextlib.closing(bound))

        # the port first: it refuses a second choird of this home before its sockets are replaced
        stack.callback(self._tcp.close)
        self._tcp.bind()
        host = [keep(bind_unix(settings.control_socket))]
        stack.callback(self._agent_sockets.close)
        self._agent_sockets.bind(agent_ids)
        address = self._tcp.address
        log.info(
            "listening", socket=str(settings.control_socket), tcp=address, agents=len(agent_ids)
        )
        return host

    async def _run_background_tasks(self, snapshot: ConfigSnapshot) -> None:
        """Run the background tasks, then start the agents."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run(), name="outbox")
            tasks.create_task(self._conversations.activity.run(), name="activity")
            tasks.create_task(self._followers.poll(), name="signal poll")
            tasks.create_task(self._sessions.mender.run(), name="mender")
            for interval_s, what, work in (
                (job.INTERVAL_S, "retention", self._retention.sweep),
                (service.INTERVAL_S, "expiry of approvals", self._expiry.expire_overdue),
                (job.INTERVAL_S / 6, "tidying of clones", self._proposals.remove_idle_clones),
                (job.INTERVAL_S, "tidying of files", self._conversations.tidy),
            ):
                tasks.create_task(run_periodically(interval_s, what, work), name=what)
            tasks.create_task(self._proposals.worker.run(), name="what was approved")
            tasks.create_task(self._operations.run(), name="operations")
            tasks.create_task(self.archivist.run(), name="archiving")
            tasks.create_task(
                self._configuration_wiring.token_publisher.run(), name="tokens for the gateway"
            )
            tasks.create_task(self._serve_bus(), name="bus")
            await self._sessions.boot.start_agents()
            self._started = True
            agents = len(snapshot.config.agents)
            log.info("choird ready", config_version=snapshot.version, agents=agents)

    async def _serve_bus(self) -> None:
        """Serve the gateway over NATS once it is reachable. Until then agents work and messages wait."""
        buttons = self._conversations.buttons(
            self._approval_service, self._meter.count_refused_press
        )
        heard = self._configuration_wiring.token_publisher.heard
        endpoints = make_bus_endpoints(
            self._inbox, self._conversations, self.configuration, heard, buttons
        )
        async with self._bus, self._bus.serve(SERVICE, VERSION, *endpoints):
            log.info("bus connected")
            self.archivist.wake()
            await self._configuration_wiring.config_notifier.notify_gateway()
            await asyncio.Event().wait()


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
