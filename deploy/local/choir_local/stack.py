"""The embedded stack as a whole: start, stop and state.

Used by choirctl and `__main__`; tests use `running_stack`. Creates the home and its secrets, chooses the
model, and runs the table of `services` with `Supervisor`.
"""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import psutil

from choir_common.addresses import client_url, uses_tls
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.logs.retention import LogLimitsReader
from choir_common.postgres.configured import read_postgres_address
from choir_common.redactor import Redactor
from choir_common.stack_secrets import POSTGRES_ADMIN
from choir_local.backup.passphrase import backup_directory
from choir_local.backup_schedule import BackupSchedule
from choir_local.bus_users import service_users
from choir_local.bytecode import compile_imports_of_agents
from choir_local.config_values import own_transcription, read_config
from choir_local.home import Home
from choir_local.launch import ServiceLauncher
from choir_local.model_choice import ModelChoice, choose_model
from choir_local.model_record import (
    configured_model,
    find_missing_model,
    record_choice,
    rehearsal_replaces_model_error,
)
from choir_local.nats import EmbeddedNats
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
from choir_local.services import SERVICES, ServiceProgram, StackSetup, build_children
from choir_local.settings import LocalSettings
from choir_local.sockets import check_socket_path, listen
from choir_local.stack_secrets import load_or_create_secrets
from choir_local.stack_state import (
    ChildState,
    Phase,
    StackObserver,
    StackState,
    is_locked,
    lock_holder,
    lock_home,
    read_state,
    write_state,
)
from choir_local.supervisor import Supervisor
from choir_local.version_record import check_version, write_version

LOOPBACK = "127.0.0.1"
PREDECESSORS_WITHIN = timedelta(seconds=20)
CLOCK_SLACK_S = 2.0
LONGEST_AGENT_SOCKET = f"agents/{'a' * 41}/choir.sock"


class Stack:
    """One embedded stack in one home."""

    def __init__(
        self,
        settings: LocalSettings,
        observer: StackObserver | None = None,
        services: Sequence[type[ServiceProgram]] = SERVICES,
    ) -> None:
        self.home = Home(settings.home.expanduser().absolute())
        self._settings = settings
        self._observer = observer
        self._services = services
        self._forks = ServiceLauncher()
        self._supervisor: Supervisor | None = None
        self._setup: StackSetup | None = None
        self._stop_wanted = False
        self._http_port = settings.http_port
        self.ready = asyncio.Event()
        self.state = StackState(
            phase="starting",
            supervisor_pid=os.getpid(),
            started_at=_now(),
            home=str(self.home.root),
        )

    def stop(self) -> None:
        """Request a stop of all children; a second call kills them."""
        self._stop_wanted = True
        if self._supervisor is not None:
            self._supervisor.stop()

    async def run(self) -> None:
        """Start everything and keep it running until `stop`.

        Raises StartupError, after stopping what had started, if something does not start.
        """
        self.home.make()
        with lock_home(self.home):
            try:
                await self._run_locked()
                self._set_phase("stopped")
            except StartupError as error:
                self._set_phase("failed", error.message)
                raise
            except OSError as error:
                failure = StartupError(
                    _("The stack in {root} cannot run: {error}.").format(
                        root=self.home.root, error=error
                    )
                )
                self._set_phase("failed", failure.message)
                raise failure from error

    async def _run_locked(self) -> None:
        # Checked here, so that a bad path gives a clear error instead of a failure during the start.
        check_socket_path(self.home.sockets / LONGEST_AGENT_SOCKET)
        check_version(self.home, backup_directory(self.home))
        if self._services:
            await self._forks.preload()
        try:
            await self._run_children()
        finally:
            await self._forks.close()

    async def _run_children(self) -> None:
        await wait_for_old_children(read_state(self.home.state_file))
        # Chosen once, so that control keeps its port across restarts.
        with listen(LOOPBACK, self._settings.http_port, "CHOIR_HTTP_PORT") as free:
            self._http_port = int(free.getsockname()[1])
        rehearsal = listen(LOOPBACK, self._settings.rehearsal_port, "CHOIR_REHEARSAL_PORT")
        with rehearsal:
            self._setup = await self._make_setup(rehearsal)
            if not self._setup.model.rehearsal:
                rehearsal.close()
            self._supervisor = self._make_supervisor(self._setup)
            self._publish_addresses(self._setup)
            # the stop may have been requested before there was a supervisor
            if self._stop_wanted:
                return
            backups = asyncio.create_task(BackupSchedule(self.home, self._settings).run())
            bytecode = asyncio.create_task(compile_imports_of_agents())
            try:
                await self._supervisor.run()
            finally:
                backups.cancel()
                bytecode.cancel()
                await asyncio.gather(backups, bytecode, return_exceptions=True)

    def _make_supervisor(self, setup: StackSetup) -> Supervisor:
        # output of third-party servers is redacted only here
        redactor = Redactor()
        redactor.add_secrets(setup.secrets.values.values())
        return Supervisor(
            build_children(setup, self._services),
            logs=self.home.logs,
            observer=self,
            redactor=redactor,
            limits=LogLimitsReader(self.home.config_file),
            launcher=self._forks.launch,
        )

    async def _make_setup(self, rehearsal: socket.socket) -> StackSetup:
        home, settings = self.home, self._settings
        secrets = load_or_create_secrets(home.secrets_file)
        rehearsal_url = f"http://{LOOPBACK}:{rehearsal.getsockname()[1]}/v1"
        model = await self._choose_model(secrets.values, rehearsal_url)
        paths = PostgresPaths(
            home.data / "postgres",
            home.postgres_sockets,
            home.logs / "postgres.log",
            settings.pg_bin,
        )
        return StackSetup(
            home=home,
            settings=settings,
            secrets=secrets,
            postgres=EmbeddedPostgres(
                paths,
                secrets.values[POSTGRES_ADMIN],
                # A newly created password is not the one that an existing cluster has.
                reset_password=POSTGRES_ADMIN in secrets.created,
            ),
            nats=EmbeddedNats(
                home.data / "nats",
                home.logs / "nats.log",
                service_users(secrets.values),
                port=settings.nats_port,
                program=settings.nats_bin,
            ),
            model=model,
            rehearsal_url=rehearsal_url,
            rehearsal_fd=rehearsal.fileno(),
            http_port=self._http_port,
            configured_postgres=read_postgres_address(home.config_file, secrets.values),
            transcription=own_transcription(home.config_file),
        )

    async def _choose_model(self, secrets: Mapping[str, str], rehearsal_url: str) -> ModelChoice:
        """Return the model `default`: the one in config.json, else the one that is available here.

        Raises StartupError if the rehearsal model would replace a real one.
        """
        settings, record = self._settings, self.home.model_file
        demanded = settings.score is not None or settings.model_source != "auto"
        own = None if demanded else configured_model(read_config(self.home.config_file), settings)
        choice = own or await choose_model(settings, secrets, rehearsal_url)
        missing = find_missing_model(record, choice, settings)
        if missing is not None:
            raise rehearsal_replaces_model_error(missing)
        return choice

    def all_ready(self) -> None:
        """Record the model and publish the addresses; called by the supervisor."""
        if self._setup is None:
            raise RuntimeError("the supervisor runs only with a setup")
        # only a help for the next start: a failure must not prevent this one
        with contextlib.suppress(OSError):
            record_choice(self.home.model_file, self._setup.model)
            if self._setup.configured_postgres is None:
                write_version(self.home)
        self._publish_addresses(self._setup)
        self._set_phase("ready")
        self.ready.set()

    def _publish_addresses(self, setup: StackSetup) -> None:
        """Publish the addresses; the bus has one only after its start."""
        endpoints = {
            "control": f"unix://{self.home.control_socket}",
            "control_http": self._http_address(),
            "gateway": f"unix://{self.home.gateway_socket}",
            "postgres": setup.postgres_dsn,
            "nats": setup.nats.url,
            **(
                {"rehearsal": setup.rehearsal_url.removesuffix("/v1")}
                if setup.model.rehearsal
                else {}
            ),
        }
        about_model = {"model": setup.model.description, "model_notes": setup.model.notes}
        self._change(self.state.model_copy(update={"endpoints": endpoints, **about_model}))

    def _http_address(self) -> str:
        settings = self._settings
        tls = uses_tls(settings.tls, settings.tls_cert, settings.http_host)
        return client_url(settings.http_host, self._http_port, tls=tls)

    def children_changed(self, children: dict[str, ChildState]) -> None:
        """Publish the states of the children; called by the supervisor."""
        stopping = any(child.phase == "stopping" for child in children.values())
        phase: Phase = "stopping" if stopping else self.state.phase
        self._change(self.state.model_copy(update={"children": children, "phase": phase}))

    def _set_phase(self, phase: Phase, error: str = "") -> None:
        self._change(self.state.model_copy(update={"phase": phase, "error": error}))

    def _change(self, state: StackState) -> None:
        self.state = state
        # A full disk must not stop the stack: the file is only for other readers.
        with contextlib.suppress(OSError):
            write_state(self.home.state_file, state)
        if self._observer is not None:
            self._observer.show(state)


async def run_until_signal(stack: Stack) -> None:
    """Run `stack` until SIGINT or SIGTERM; a second signal kills what still runs.

    Raises StartupError as `Stack.run` does.
    """
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stack.stop)
    try:
        await stack.run()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def running_stack(
    settings: LocalSettings,
    observer: StackObserver | None = None,
    services: Sequence[type[ServiceProgram]] = SERVICES,
) -> AsyncIterator[Stack]:
    """Run a stack during the block, which begins when everything is ready.

    Raises StartupError as `Stack.run` does.
    """
    stack = Stack(settings, observer, services)
    running = asyncio.create_task(stack.run())
    waiting = asyncio.create_task(stack.ready.wait())
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
            raise StartupError(_("The stack was stopped before it was ready."))
        yield stack
    finally:
        waiting.cancel()
        stack.stop()
        await running


async def stop_stack(home: Home, within: timedelta = timedelta(seconds=120)) -> bool:
    """Stop the stack that runs in `home`; return False if none runs.

    Raises StartupError if it does not stop in time.
    """
    if not is_locked(home):
        return False
    pid = None
    deadline = time.monotonic() + within.total_seconds()
    while is_locked(home):
        pid = pid or _send_stop_signal(home)
        if time.monotonic() > deadline:
            raise StartupError(
                _(
                    "Choir in {root} (process {pid}) did not stop within {total_seconds:g} s. See "
                    "the logs in {logs}."
                ).format(
                    root=home.root, pid=pid, total_seconds=within.total_seconds(), logs=home.logs
                )
            )
        await asyncio.sleep(0.02)
    return True


def kill_stack(home: Home) -> None:
    """Make a stopping stack kill what still runs."""
    if is_locked(home):
        _send_stop_signal(home)


def _send_stop_signal(home: Home) -> int | None:
    """Send the supervisor SIGTERM, which means hurry if it was sent before; return its pid.

    The lock file names it: a state file may be of an earlier one, whose pid another process has now.
    """
    pid = lock_holder(home)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return pid


async def wait_for_old_children(state: StackState | None) -> None:
    """Wait until the children of a killed stack have ended, and kill those that remain.

    The kernel sent them their stop signal when their supervisor died.
    """
    children = [c for c in state.children.values() if c.pid is not None] if state else []
    deadline = time.monotonic() + PREDECESSORS_WITHIN.total_seconds()
    while remaining := [process for child in children for process in _alive(child)]:
        if time.monotonic() > deadline:
            for process in remaining:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            return
        await asyncio.sleep(0.02)


def _alive(child: ChildState) -> list[psutil.Process]:
    """Return the child's process, unless it has ended or another process has its pid."""
    try:
        process = psutil.Process(child.pid)
        # psutil computes it from the boot time, which clock corrections shift slightly.
        same = child.born is None or abs(process.create_time() - child.born) < CLOCK_SLACK_S
        # In a container without an init, a process that has ended stays a zombie.
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return []
    return [process] if same and not is_zombie else []


def _now() -> datetime:
    return datetime.now(UTC)
