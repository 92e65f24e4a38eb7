"""The choird application: opens the services in order, serves requests, and closes in reverse order.

`choir_control.wiring` builds the services. Nothing is created at import. Order:
`docs/design/lifecycle.md`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

import structlog

from choir_common.clock import Clock, SystemClock
from choir_common.errors import Unavailable
from choir_common.http.listen import bind_unix, serve
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.telemetry import Redactor
from choir_control import VERSION
from choir_control.agents.egress_registry import SEND_INTERVAL_S
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.conversation_reconciler import (
    INTERVAL_S as CONVERSATIONS_INTERVAL_S,
)
from choir_control.agents.sessions.idle_end import INTERVAL_S as IDLE_INTERVAL_S
from choir_control.agents.sessions.workspace_traps import INTERVAL_S as TRAPS_INTERVAL_S
from choir_control.agents.sessions.workspace_usage import INTERVAL_S as USAGE_INTERVAL_S
from choir_control.api_clients.service import SWEEP_INTERVAL_S as CLIENTS_INTERVAL_S
from choir_control.approvals.service import EXPIRY_INTERVAL_S
from choir_control.configuration.current import ConfigSnapshot
from choir_control.configuration.secrets.mcp_tokens import RENEWAL_INTERVAL_S
from choir_control.configuration.startup import StartupConfig, read_startup_config
from choir_control.conversations.agent_questions.service import (
    SWEEP_INTERVAL_S as QUESTIONS_INTERVAL_S,
)
from choir_control.conversations.pairing.service import SWEEP_INTERVAL_S as PAIRING_INTERVAL_S
from choir_control.conversations.schedules.wake_up_planner import (
    INTERVAL_S as WAKE_UPS_INTERVAL_S,
)
from choir_control.leadership.leadership import LeadershipLost
from choir_control.leadership.standby_app import StandbyApp
from choir_control.log.audit.anchoring import SWEEP_INTERVAL_S as ANCHOR_SWEEP_INTERVAL_S
from choir_control.log.retention import job
from choir_control.money.budgets import LOST_CALLS_INTERVAL_S
from choir_control.periodic import run_periodically
from choir_control.settings import ControlSecrets, ControlSettings
from choir_control.web.service import SWEEP_INTERVAL_S as WEB_SWEEP_INTERVAL_S
from choir_control.wiring.http import HttpServices, bus_endpoints
from choir_control.wiring.services import SERVICE, ControlServices

log = structlog.get_logger("choir.control")

HAND_OVER_S = 5.0
"""Time for the background tasks to end before a standby takes over."""
ADDRESS_INTERVAL_S, ADDRESS_RETRY_S = 30.0, 1.0


class ControlApp:
    """The choird application: the constructor builds it without any I/O; `run` opens and serves
    it."""

    def __init__(
        self,
        settings: ControlSettings,
        secrets: ControlSecrets,
        runtime: AgentRuntime,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        end_at_once: Callable[[int], object] | None = None,
    ) -> None:
        """Build all objects. `redactor` filters the log lines and learns every secret.

        `end_at_once` ends the process with an exit code when another control process has taken over.
        """
        self._settings = settings
        self._runtime = runtime
        self._end_at_once = end_at_once
        self.services = ControlServices(
            settings=settings,
            secrets=secrets,
            runtime=runtime,
            redactor=redactor or Redactor(),
            clock=clock or SystemClock(),
        )
        self.http = HttpServices(self.services)

    async def run(self, stop: asyncio.Event, hurry: asyncio.Event | None = None) -> None:
        """Start in order, serve until `stop` is set, close in reverse order.

        A standby waits until it leads. The agents are stopped first, which may take `agents_stop_s` seconds;
        `hurry` cuts that short, and so does a standby, which resumes them. Raises StartupError when it cannot
        start, and LeadershipLost when another control process has taken over.
        """
        leadership = self.services.leadership
        async with contextlib.AsyncExitStack() as stack:
            startup_config = read_startup_config(self.services.configuration)
            # the port first: it refuses a second choird of this home before its sockets are replaced
            stack.callback(self.services.listener.close)
            self.services.listener.bind()
            stack.callback(leadership.release)
            if not await leadership.start():
                await self._stand_by(stop)
                if not leadership.is_leader:
                    return
                startup_config = read_startup_config(self.services.configuration)
                await self.services.config_changes.secret_reloader.read_again()
            try:
                async with asyncio.TaskGroup() as tasks:
                    # from the start: Postgres ends the session of a leader that is silent
                    watching = tasks.create_task(self._watch_leadership())
                    host_sockets, snapshot = await self._open(stack, startup_config)
                    await self._serve_until(stop, hurry or asyncio.Event(), host_sockets, snapshot)
                    watching.cancel()
            except ExceptionGroup as group:
                if len(group.exceptions) == 1:
                    raise group.exceptions[0] from None
                raise

    async def _watch_leadership(self) -> None:
        try:
            await self.services.leadership.watch()
        except LeadershipLost as lost:
            log.error("another control process leads, ending at once", exit_code=lost.exit_code)
            if self._end_at_once is not None:
                self._end_at_once(lost.exit_code)
            raise

    async def _serve_until(
        self,
        stop: asyncio.Event,
        hurry: asyncio.Event,
        host_sockets: list[socket.socket],
        snapshot: ConfigSnapshot,
    ) -> None:
        """Serve until `stop` is set; then stop the agents, or hand over to a standby, which resumes them."""
        leadership = self.services.leadership
        async with asyncio.TaskGroup() as tasks:
            closed = asyncio.Event()
            self._start_serving(tasks, host_sockets, closed)
            background = tasks.create_task(self._run_background_tasks(snapshot))
            await stop.wait()
            log.info("choird is stopping", has_standby=leadership.has_standby)
            if not leadership.has_standby:
                await self.services.sessions.shutdown.run(self._settings.agents_stop_s, hurry)
            closed.set()
            self.services.log.signal_streams.close()
            background.cancel()
            if leadership.has_standby:
                await self._hand_over(background)

    async def _stand_by(self, stop: asyncio.Event) -> None:
        """Answer as a standby until this process leads, or until `stop` is set."""
        services, done = self.services, asyncio.Event()
        log.info("standby: another control process leads", tcp=services.listener.address)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(services.listener.serve_copy(StandbyApp(SERVICE), done))
            waits = [
                tasks.create_task(services.leadership.wait()),
                tasks.create_task(stop.wait()),
            ]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            done.set()

    async def _hand_over(self, background: asyncio.Task[None]) -> None:
        """Free the lock as soon as nothing here writes; the standby resumes the agents."""
        await asyncio.wait((background,), timeout=HAND_OVER_S)
        await self._runtime.hand_over()
        await self.services.database.close()
        self.services.leadership.release()
        log.info("handed over to a standby")

    async def _open(
        self, stack: contextlib.AsyncExitStack, startup_config: StartupConfig
    ) -> tuple[list[socket.socket], ConfigSnapshot]:
        """Open sockets, database and configuration; clean up after the previous run."""
        services = self.services
        host_sockets = self._bind(stack, startup_config.agents)
        stack.push_async_callback(services.gateway.aclose)
        stack.push_async_callback(services.egress.aclose)
        stack.push_async_callback(services.host_tools.browse_tool.aclose)
        await stack.enter_async_context(services.database)
        log.info("database connected")
        files = read_migrations("choir_control.migrations")
        applied = await migrate(services.database, "choir_control", files)
        log.info("database schema ready", applied=applied)
        await services.leadership.begin_term()
        candidate = await startup_config.or_last_valid(services.configuration)
        services.agent_sockets.bind(sorted(candidate.config.agents))
        snapshot = await services.configuration.put_in_force(candidate)
        await services.conversations.people.load()
        await services.conversations.following.load()
        await services.conversations.languages.load()
        await services.pairing.load()
        await services.api_clients.load()
        await services.log.audit.anchoring.open()
        await services.config_changes.secret_reloader.remember_startup_values()
        stack.push_async_callback(self._runtime.close)
        await services.sessions.conversation_binder.load()
        await services.operations.put_in_order()
        orphans, stale = await services.sessions.startup.put_in_order()
        stack.push_async_callback(services.images.builder.close)
        await services.images.remove_orphans()
        log.info("sessions in order", orphans_removed=orphans, stale_sessions=stale)
        return host_sockets, snapshot

    def _bind(
        self, stack: contextlib.AsyncExitStack, agent_ids: Sequence[str]
    ) -> list[socket.socket]:
        """Bind the Unix sockets, which replaces those of an earlier leader of this home."""
        agent_sockets = self.services.agent_sockets
        control_socket = bind_unix(self._settings.control_socket)
        stack.enter_context(contextlib.closing(control_socket))
        stack.callback(agent_sockets.close)
        agent_sockets.bind(agent_ids)
        log.info(
            "listening",
            socket=str(self._settings.control_socket),
            tcp=self.services.listener.address,
            agents=len(agent_ids),
        )
        return [control_socket]

    def _start_serving(
        self, tasks: asyncio.TaskGroup, host_sockets: list[socket.socket], closed: asyncio.Event
    ) -> None:
        services, http = self.services, self.http
        tasks.create_task(services.listener.serve(http.host_app, closed))
        tasks.create_task(serve(http.host_app, host_sockets, closed))
        services.agent_sockets.start_serving(tasks, http.agent_app, closed)

    async def _run_background_tasks(self, snapshot: ConfigSnapshot) -> None:
        """Run the background tasks, then start the agents."""
        services = self.services
        proposals = services.approvals.proposals
        async with asyncio.TaskGroup() as tasks:
            for name, worker in (
                ("outbox", services.conversations.outbox.run()),
                ("activity", services.conversations.activity.run()),
                ("signal poll", services.log.signal_streams.poll()),
                ("crash recovery", services.sessions.crash_recovery.run()),
                ("proposals", proposals.worker.run()),
                ("approval withdrawal", services.approvals.withdrawal.run()),
                ("operations", services.operations.run()),
                ("archiving", services.log.archiver.run()),
                ("content erasure", services.log.content_eraser.run()),
                ("bot tokens", services.config_changes.bot_tokens.run()),
                ("telegram connections", services.telegram.run()),
                ("web push", services.web.push.notifier.run()),
                ("mcp", self.http.mcp.run()),
                ("bus", self._serve_bus()),
                ("address", self._claim_address()),
            ):
                tasks.create_task(worker, name=name)
            for name, interval_s, run in (
                ("retention", job.INTERVAL_S, services.log.retention.sweep),
                ("audit anchors", ANCHOR_SWEEP_INTERVAL_S, services.log.audit.anchoring.sweep),
                ("approval expiry", EXPIRY_INTERVAL_S, services.approvals.expiry.expire_overdue),
                ("conversations", CONVERSATIONS_INTERVAL_S, services.sessions.conversations.sweep),
                ("idle sessions", IDLE_INTERVAL_S, services.sessions.idle_ender.sweep),
                ("workspace traps", TRAPS_INTERVAL_S, services.sessions.traps.sweep),
                ("workspace usage", USAGE_INTERVAL_S, services.sessions.usage.sweep),
                ("clone removal", job.INTERVAL_S / 6, proposals.remove_idle_clones),
                ("lost model calls", LOST_CALLS_INTERVAL_S, services.money.budgets.count_lost),
                ("egress", SEND_INTERVAL_S, services.egress.send),
                ("pairing", PAIRING_INTERVAL_S, services.pairing.sweep),
                ("clients", CLIENTS_INTERVAL_S, services.api_clients.sweep),
                ("questions", QUESTIONS_INTERVAL_S, services.host_tools.questions.sweep),
                ("web sessions", WEB_SWEEP_INTERVAL_S, services.web.sessions.sweep),
                ("mcp tokens", RENEWAL_INTERVAL_S, services.config_changes.mcp_tokens.sweep),
                ("wake-ups", WAKE_UPS_INTERVAL_S, services.schedules.wake_ups.sync),
                ("conversation cleanup", job.INTERVAL_S, services.conversations.tidy),
            ):
                tasks.create_task(run_periodically(interval_s, name, run), name=name)
            await services.sessions.startup.start_agents()
            # not earlier: a prompt that is due would wait for an agent that is about to start
            tasks.create_task(services.schedules.runner.run(), name="schedules")
            tasks.create_task(services.triggers.worker.run(), name="triggers")
            tasks.create_task(services.triggers.folders.run(), name="watched folders")
            self.http.readiness.mark_started()
            log.info("choird ready", config_version=snapshot.version)

    async def _serve_bus(self) -> None:
        """Serve the gateway over NATS once it is reachable. Until then agents work and messages wait.

        While another control process may have taken over, that one serves.
        """
        services, leadership = self.services, self.services.leadership
        endpoints = bus_endpoints(services)
        async with services.bus:
            while True:
                await leadership.until_certain()
                async with services.bus.serve(SERVICE, VERSION, *endpoints):
                    log.info("bus connected")
                    services.log.archiver.wake()
                    await services.config_changes.versions.notify_gateway()
                    await leadership.until_in_doubt()

    async def _claim_address(self) -> None:
        """Lead clients to this process, now and after somebody else has changed that."""
        while True:
            await self.services.leadership.until_certain()
            try:
                await self._runtime.claim_address()
                pause_s = ADDRESS_INTERVAL_S
            except Unavailable as error:
                log.warning("clients are not led here yet", error=error.message)
                pause_s = ADDRESS_RETRY_S
            await asyncio.sleep(pause_s)
