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

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.browser import BusBrowser
from choir_common.clients.memory import BusMemory
from choir_common.clients.memory_collections import BusCollectionMemory
from choir_common.clients.memory_operator import BusOperatorMemory
from choir_common.clients.memory_sessions import BusSessionMemory
from choir_common.clock import Clock, SystemClock
from choir_common.http.listen import bind_unix, serve
from choir_common.http.service_app import Readiness
from choir_common.http.transport import make_client
from choir_common.metrics import Metrics
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.telemetry import Redactor
from choir_common.wire.messages import Nothing
from choir_control import VERSION
from choir_control.approvals import expire
from choir_control.approvals.decide import Desk
from choir_control.archiving.archivist import Archivist
from choir_control.archiving.rehearsals import Rehearsals
from choir_control.archiving.store import ArchiveStore
from choir_control.bus_doors.conversations import Conversations, Ways
from choir_control.bus_doors.endpoints import bus_endpoints
from choir_control.commands.choices import Choices
from choir_control.commands.errands import Errands
from choir_control.commands.hands import Hands
from choir_control.commands.obey import Obedience
from choir_control.configuration.current import Configuration, Snapshot
from choir_control.configuration.opening import read_at_start
from choir_control.configuration.version_store import ConfigVersionStore
from choir_control.doors import AgentDoor, AgentSockets, make_agent_app, make_host_app
from choir_control.eventlog.recovery_store import RecoveryStore
from choir_control.eventlog.search_store import LogSearchStore
from choir_control.eventlog.store import EventStore
from choir_control.evolution import workshop
from choir_control.evolution.in_force import InForce
from choir_control.evolution.renewal import Renewal
from choir_control.hosttools.browse import make_browse_tool
from choir_control.hosttools.execute import HostTools, tool_table
from choir_control.hosttools.memory import MemoryTools
from choir_control.images.foundry import Foundry
from choir_control.images.pending import PendingImages
from choir_control.inbox.accept import Inbox
from choir_control.leases.guard import LeaseGuard
from choir_control.leases.store import LeaseStore
from choir_control.metrics.gauge_store import GaugeStore
from choir_control.metrics.meter import Meter
from choir_control.operations.run import Operations
from choir_control.operations.store import OperationStore
from choir_control.operator.admission import Admission
from choir_control.operator.agents import agent_routes, signal_routes
from choir_control.operator.approvals import approval_routes
from choir_control.operator.choices import choice_routes
from choir_control.operator.collections import CollectionRoom, collection_routes
from choir_control.operator.configuring import Configuring, Ends
from choir_control.operator.descent import descends_from_us
from choir_control.operator.memory import MemoryRoom, memory_routes
from choir_control.operator.operations import operation_routes, rollout_routes
from choir_control.operator.outbox import outbox_routes
from choir_control.operator.sessions import session_routes
from choir_control.operator.system import (
    command_routes,
    dm_routes,
    status_routes,
)
from choir_control.operator.workspaces import workspace_routes
from choir_control.readiness import Parts
from choir_control.repos.keys import Keys
from choir_control.retention import job
from choir_control.rollout.begin import Rollout
from choir_control.rollout.update import Updater
from choir_control.rounds import every
from choir_control.rpc.verbs import Verbs
from choir_control.runtimes.port import AgentRuntime
from choir_control.sessions.hello import Greeting
from choir_control.sessions.household import Household, Surroundings
from choir_control.sessions.outfit import Outfitter
from choir_control.sessions.reports import StatusBoard
from choir_control.sessions.roster import Roster
from choir_control.sessions.stream import LogStreams
from choir_control.settings import ControlSecrets, ControlSettings
from choir_control.signals.bell import Bell
from choir_control.signals.follow import Followers
from choir_control.signals.order import SignalOrder
from choir_control.signals.store import SignalStore
from choir_control.transports.tcp import TcpDoor

log = structlog.get_logger("choir.control")

SERVICE = "choir-control"
METRICS_TOKEN = "metrics-token"  # noqa: S105 - a secret's name


class Control:
    """The choird application: the constructor builds it without any I/O; `run` opens and serves it."""

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
            *settings.postgres(secrets),
            size=settings.database_connections,
            application=SERVICE,
        )
        self._bus = Bus(settings.nats_url, secrets.nats_token, SERVICE)
        self._memory = BusMemory(self._bus)
        self._memory_tools = MemoryTools(self._memory, self._redactor)
        self._gateway = make_client(
            settings.console_endpoint, headers=_bearer(secrets.operator_token)
        )
        self.configuration = Configuration(
            settings.config_file, settings.default_model, ConfigVersionStore(self.database)
        )
        self._build_rooms()
        self._build_doors()

    def _build_rooms(self) -> None:
        bell, signals = Bell(), SignalStore(self.database)
        self._tcp = TcpDoor(self._settings)
        self._guard = LeaseGuard(LeaseStore(self.database))
        ways = Ways(
            self._settings.home, self.database, self.configuration, self._bus, self._gateway
        )
        talks = self._talks = Conversations(ways)
        self._outbox = talks.outbox
        self._followers = Followers(signals, bell, self._guard.is_current, talks.fetching.bring)
        self._board, order = StatusBoard(self._clock), SignalOrder()
        self._events, self._log_search = EventStore(self.database), LogSearchStore(self.database)
        self._retention = job.RetentionJob(self.database, self._events, self.configuration)
        self._metrics = Metrics(SERVICE)
        self._meter = Meter(self._metrics, GaugeStore(self.database).waiting)
        self._approvals = talks.approvals
        self._desk = Desk(
            self._approvals, order.of, bell.ring, self._outbox.rescan, self._carry_out
        )
        self._expiry = expire.Expiry(
            self._approvals, self._desk, self._approval_patience, self._clock
        )
        self._archives = ArchiveStore(self.database)
        self.archivist = self._make_archivist()
        self._browser = BusBrowser(self._bus)
        self._browse = make_browse_tool(self._browser, self._settings, self.configuration)
        self._keys = Keys(self._secret, self._settings.known_hosts)
        self._foundry = Foundry(self._settings, self.configuration, self._keys)
        self._operations = Operations(
            OperationStore(self.database), self._outbox.rescan, talks.activity.show
        )
        self._household = self._make_household(signals, order, bell)
        self._agent_sockets = AgentSockets(self._settings.agent_socket_dir)
        self._configuring = self._make_configuring(signals, order, bell)
        self._roster = Roster(
            self.configuration,
            self._household.store,
            self._talks.inbox_store,
            self._board,
            self._runtime,
            self._household.vitals,
            self._configuring.news.version_of,
        )
        self._rollout = self._make_rollout()
        self._workshop = self._make_workshop(order, bell)
        obey = Obedience(talks.inbox_store, self._hands(), bell.ring, order.of).obey
        self._inbox = Inbox(
            talks.inbox_store, self.configuration, obey, bell.ring, order.of, self._redactor
        )

    def _make_archivist(self) -> Archivist:
        sessions, config = BusSessionMemory(self._bus), self.configuration
        rehearsals = Rehearsals(self.database, sessions, BusOperatorMemory(self._bus))
        current = lambda: config.current.config  # noqa: E731
        return Archivist(self._archives, self._events, sessions, current, rehearsals)

    def _make_household(self, signals: SignalStore, order: SignalOrder, bell: Bell) -> Household:
        return Household(
            Surroundings(
                settings=self._settings,
                database=self.database,
                configuration=self.configuration,
                runtime=self._runtime,
                guard=self._guard,
                signals=signals,
                order=order,
                bell=bell,
                clock=self._clock,
                outfitter=Outfitter(
                    self._settings.home,
                    self.configuration,
                    self._foundry.shelf,
                    self._foundry.builder,
                ),
                operations=self._operations,
                rescan=self._outbox.rescan,
                release=self._browse.release,
                archive=self.archivist,
                way=self._tcp.way_of_agents,
            )
        )

    def _make_configuring(
        self, signals: SignalStore, order: SignalOrder, bell: Bell
    ) -> Configuring:
        foundry = self._foundry
        pending = PendingImages(foundry.mirrors, foundry.shelf, self._live_agents)
        ends = Ends(
            configuration=self.configuration,
            sessions=self._household.store,
            signals=signals,
            order=order,
            bell=bell,
            clock=self._clock,
            redactor=self._redactor,
            gateway=self._gateway,
            trust=self._tcp.trust,
            open_doors=self._agent_sockets.opened,
            survey=foundry.surveyor.survey,
            behind=pending.changes,
            publish=self._publish_channels,
        )
        held = self._secrets
        return Configuring(ends, self._settings.secrets_json, held.secrets, held.supplied)

    async def _live_agents(self) -> frozenset[str]:
        return frozenset(row.agent_id for row in await self._household.store.live())

    def _make_rollout(self) -> Rollout:
        sessions, foundry = self._household, self._foundry
        updater = Updater(
            self.configuration,
            foundry.images,
            foundry.shelf,
            sessions.store,
            sessions.starter,
            sessions.stopper,
        )
        return Rollout(self.configuration, updater, self._operations)

    def _make_workshop(self, order: SignalOrder, bell: Bell) -> workshop.Workshop:
        return workshop.Workshop(
            workshop.Surroundings(
                home=self._settings.home,
                config_file=self._settings.config_file,
                environment=os.environ,
                database=self.database,
                configuration=self.configuration,
                approvals=self._approvals,
                clock=self._clock,
                order=order.of,
                ring=bell.ring,
                said=self._outbox.rescan,
                put_in_force=InForce(self._configuring.staging.put_file_in_force),
                renew=Renewal(self._rollout, self._operations),
                keys=self._keys,
            )
        )

    def _secret(self, name: str) -> str | None:
        return self._configuring.vault.pick((name,)).get(name)

    def _carry_out(self) -> None:
        self._workshop.evolution.wake()

    def _hands(self) -> Hands:
        sessions = self._household
        return Hands(
            configuration=self.configuration,
            staging=self._configuring.staging,
            vault=self._configuring.vault,
            roster=self._roster,
            starter=sessions.starter,
            stopper=sessions.stopper,
            changes=sessions.changes,
            sessions=sessions.store,
            events=self._events,
            approvals=self._approvals,
            desk=self._desk,
            outbox=self._talks.outbox_store,
            rollout=self._rollout,
            operations=self._operations,
            workspaces=sessions.workspaces,
            errands=Errands(self._operations),
            choices=Choices(),
        )

    def _build_doors(self) -> None:
        self._parts = Parts(
            self.database,
            self._bus,
            self._memory,
            self._browser,
            self._gateway,
            self._runtime.trouble,
            lambda: self._started,
            self._archives.waiting,
        )
        door = AgentDoor(self._guard, self._verbs(), self._followers, self._metrics)
        admission = Admission(self._secrets.operator_token, descends_from_us)
        self.agent_app = make_agent_app(VERSION, Readiness(self._parts.needed), door)
        self.host_app = make_host_app(
            VERSION,
            self._parts,
            door,
            admission,
            self._gateway,
            self._operator_rooms(),
            self._meter,
            lambda: self._secret(METRICS_TOKEN),
        )

    def _verbs(self) -> Verbs:
        sessions = self._household
        return Verbs(
            greeting=Greeting(
                sessions.store,
                RecoveryStore(self.database, self._events),
                self.configuration,
                self._foundry.shelf,
            ),
            configuration=self.configuration,
            vault=self._configuring.vault,
            news=self._configuring.news,
            appender=self._talks.appender(self._events, self._meter),
            approvals=self._workshop.intake,
            board=self._board,
            stopper=sessions.stopper,
            vitals=sessions.vitals,
            hosttools=HostTools(tool_table(self._memory_tools, self._browse, self._log_search)),
        )

    def _operator_rooms(self) -> Sequence[APIRouter]:
        sessions, roster = self._household, self._roster
        return (
            status_routes(
                self._settings.home, VERSION, self.configuration, roster, self._parts.all
            ),
            approval_routes(self._approvals, self._desk, self._workshop.evolution),
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
                MemoryRoom(
                    self.configuration,
                    self._memory_tools,
                    self._memory,
                    BusOperatorMemory(self._bus),
                    BusSessionMemory(self._bus),
                )
            ),
            collection_routes(
                CollectionRoom(
                    self.configuration,
                    self._memory_tools,
                    BusCollectionMemory(self._bus),
                    self._redactor,
                )
            ),
            outbox_routes(self._talks.outgoing),
            *self._configuring.routes(),
        )

    async def _publish_channels(self) -> None:
        await self._bus.publish(subjects.channels_changed(), Nothing())

    def _log_streams(self) -> LogStreams:
        store = self._household.store
        return LogStreams(store, self._events, lambda: self._followers.closing)

    def _approval_patience(self) -> timedelta:
        return timedelta(milliseconds=self.configuration.current.config.approval_timeout_ms)

    async def run(self, stop: asyncio.Event, hurry: asyncio.Event | None = None) -> None:
        """Start in order, serve until `stop` is set, close in reverse order.

        The agents are stopped first, which may take `agents_stop_s` seconds; `hurry` cuts that short.
        Raises StartupError when it cannot start.
        """
        found = read_at_start(self.configuration)
        async with contextlib.AsyncExitStack() as stack:
            host = self._bind(stack, found.agents)
            stack.push_async_callback(self._gateway.aclose)
            stack.push_async_callback(self._browse.aclose)
            await stack.enter_async_context(self.database)
            log.info("database connected")
            files = read_migrations("choir_control.migrations")
            applied = await migrate(self.database, "choir_control", files)
            log.info("database schema ready", applied=applied)
            candidate = await found.or_last_good(self.configuration)
            self._agent_sockets.bind(sorted(candidate.config.agents))
            snapshot = await self.configuration.put_in_force(candidate)
            await self._configuring.secrets.note_own()
            stack.push_async_callback(self._runtime.close)
            await self._operations.put_in_order()
            orphans, stale = await self._household.boot.put_in_order()
            log.info("sessions in order", orphans_removed=orphans, stale_sessions=stale)
            async with asyncio.TaskGroup() as tasks:
                closed = asyncio.Event()
                tasks.create_task(self._tcp.serve(self.host_app, closed))
                tasks.create_task(serve(self.host_app, host, closed))
                self._agent_sockets.serve_in(tasks, self.agent_app, closed)
                work = tasks.create_task(self._work(snapshot))
                await stop.wait()
                log.info("choird stops")
                most_s = self._settings.agents_stop_s
                await self._household.shut_down.run(most_s, hurry or asyncio.Event())
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

    async def _work(self, snapshot: Snapshot) -> None:
        """Run the background tasks, then start the agents."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run(), name="outbox")
            tasks.create_task(self._talks.activity.run(), name="activity")
            tasks.create_task(self._followers.poll(), name="signal poll")
            tasks.create_task(self._household.mender.run(), name="mender")
            for interval_s, what, work in (
                (job.EVERY_S, "retention", self._retention.sweep),
                (expire.EVERY_S, "expiry of approvals", self._expiry.expire_overdue),
                (job.EVERY_S / 6, "tidying of clones", self._workshop.tidy),
                (job.EVERY_S, "tidying of files", self._talks.tidy),
            ):
                tasks.create_task(every(interval_s, what, work), name=what)
            tasks.create_task(self._workshop.evolution.run(), name="what was approved")
            tasks.create_task(self._operations.run(), name="operations")
            tasks.create_task(self.archivist.run(), name="archiving")
            tasks.create_task(self._configuring.courier.run(), name="tokens for the gateway")
            tasks.create_task(self._listen_to_bus(), name="bus")
            await self._household.boot.start_agents()
            self._started = True
            agents = len(snapshot.config.agents)
            log.info("choird ready", config_version=snapshot.version, agents=agents)

    async def _listen_to_bus(self) -> None:
        """Serve the gateway over NATS once it is reachable. Until then agents work and messages wait."""
        buttons = self._talks.buttons(self._desk, self._meter.note_press_refused)
        heard = self._configuring.courier.heard
        endpoints = bus_endpoints(self._inbox, self._talks, self.configuration, heard, buttons)
        async with self._bus, self._bus.serve(SERVICE, VERSION, *endpoints):
            log.info("bus connected")
            self.archivist.wake()
            await self._publish_channels()
            await asyncio.Event().wait()


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
