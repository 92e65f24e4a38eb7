"""Start, readiness wait and stop of one child process, which is tied to the parent's life.

A child gets a session of its own and a clean environment. It runs `child_start` first, which then executes
the program; a service of ours becomes a fork of `service_fork_server` instead. Every caller must `wait()` for
its children.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from choir_common.errors import StartupError
from choir_common.forks.client import ChildProcess, ForkServer
from choir_common.i18n import _
from choir_common.wire.forks import ServiceForkRequest
from choir_local import child_start
from choir_local.child_log import ChildLog, read_log_tail
from choir_local.process_user import SAME_USER, ProcessUser

FIRST_POLL_S = 0.005
MAX_POLL_S = 0.05
PIPE_ROOM = 60_000  # bytes; a Linux pipe takes 64 KiB before a writer blocks
PYTHON = (sys.executable, "-P", "-m")  # -P: the working directory is not searched for modules
FORKED_MODULES = (
    *("choir_local.rehearsal", "choir_egress", "choir_gateway", "choir_memory", "choir_control"),
)
"""Services that start as forks; the browser service is confined, and so it is not among them."""
INHERITED = (
    *("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "PLAYWRIGHT_BROWSERS_PATH"),
)


def clean_environment(**more: str) -> dict[str, str]:
    """Return the few variables every program needs, plus `more`; keys and tokens are not inherited."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"HOME": os.environ.get("HOME", "/"), **inherited, **more}


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start: `stdin` is written and closed, `fds` stay open in the child."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=clean_environment)
    stdin: bytes = b""
    fds: tuple[int, ...] = ()
    identity: ProcessUser = SAME_USER
    death_signal: signal.Signals = signal.SIGTERM
    """Sent by the kernel to the child when this process dies, however it dies."""


def open_log(path: Path) -> int:
    """Open `path` for appending with mode 0600, for the supervisor's own output."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def launch(command: Command, log: ChildLog) -> Process:
    """Start `command` with its output read into `log`; the caller must wait for the process.

    Raises OSError if it cannot be forked.
    """
    output = await log.open_pipe()
    try:
        return await _spawn(command, output)
    finally:
        os.close(output)


class ServiceLauncher:
    """Launcher of services as forks of a process that has their modules; see `service_fork_server`."""

    def __init__(self) -> None:
        command = (*PYTHON, "choir_local.service_fork_server")
        self._server = ForkServer(command, clean_environment(), is_worthwhile=lambda: True)

    async def preload(self) -> None:
        """Start to load the modules, which takes seconds, without waiting for it."""
        with contextlib.suppress(OSError):  # the first start of a service tries again
            await self._server.start()

    async def launch(self, command: Command, log: ChildLog) -> ChildProcess:
        """Start `command` as `launch` does, as a fork if it runs one of those services. Raises OSError."""
        if not _is_forked(command):
            return await launch(command, log)
        output = await log.open_pipe()
        try:
            return await self._fork(command, output)
        except OSError as error:
            text = f"the fork server failed ({error}); the service loads its own modules\n"
            os.write(output, text.encode())
            return await _spawn(command, output)
        finally:
            os.close(output)

    async def close(self) -> None:
        """End the fork server; the services live on."""
        await self._server.close()

    async def _fork(self, command: Command, output: int) -> ChildProcess:
        module, *arguments = command.argv[len(PYTHON) :]
        request = ServiceForkRequest(
            module=module,
            arguments=tuple(arguments),
            environment=dict(command.env),
            directory=str(Path.cwd()),
            numbers=command.fds,
            parent=os.getpid(),
            death_signal=int(command.death_signal),
        )
        with _filled_pipe(command) as stdin:
            return await self._server.fork(request, (stdin, output, *command.fds))


def _is_forked(command: Command) -> bool:
    """Return whether a command runs one of the services that start as forks, where the kernel allows it."""
    start, module = command.argv[: len(PYTHON)], command.argv[len(PYTHON) :][:1]
    return sys.platform == "linux" and start == PYTHON and module[0] in FORKED_MODULES


async def run_to_end(command: Command, within: timedelta) -> tuple[int, str]:
    """Run `command` and return its exit code and output; kill it after `within`.

    Raises TimeoutError when `within` has passed.
    """
    process = await _spawn(command, PIPE)
    try:
        async with asyncio.timeout(within.total_seconds()):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")


async def _spawn(command: Command, output: int) -> Process:
    with _filled_pipe(command) as stdin:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            child_start.__file__,
            str(os.getpid()),
            str(int(command.death_signal)),
            command.identity.text,
            *command.argv,
            env=dict(command.env),
            stdin=stdin,
            stdout=output,
            stderr=STDOUT,
            pass_fds=command.fds,
            start_new_session=True,
        )


@contextlib.contextmanager
def _filled_pipe(command: Command) -> Iterator[int]:
    """Yield the read end of a pipe with the command's standard input."""
    if len(command.stdin) > PIPE_ROOM:
        raise ValueError(f"standard input of {command.argv[0]} exceeds {PIPE_ROOM} bytes")
    # A real pipe, not asyncio's PIPE: that is a socket pair, which /dev/stdin cannot open.
    read_end, write_end = os.pipe()
    try:
        try:
            os.write(write_end, command.stdin)
        finally:
            os.close(write_end)
        yield read_end
    finally:
        os.close(read_end)


class ReadinessCheck(Protocol):
    """Check of a starting child; called repeatedly."""

    async def is_ready(self, pid: int) -> bool:
        """Return whether the child with this pid is ready."""


async def wait_ready(
    name: str, process: ChildProcess, check: ReadinessCheck, within: timedelta, log: ChildLog
) -> None:
    """Return when `check` reports that the child is ready.

    Raises StartupError with the end of `log` if the child ends first or `within` has passed.
    """
    pause = FIRST_POLL_S
    try:
        async with asyncio.timeout(within.total_seconds()):
            while not await check.is_ready(process.pid):
                if process.returncode is not None:
                    await log.wait_complete()
                    raise StartupError(
                        _(
                            "{name} ended with code {code} before it was ready. Its last output: "
                            "{output} (log: {log})"
                        ).format(
                            name=name,
                            code=process.returncode,
                            output=read_log_tail(log.path) or _("nothing"),
                            log=log.path,
                        )
                    )
                await asyncio.sleep(pause)
                pause = min(pause * 1.3, MAX_POLL_S)
    except TimeoutError as error:
        raise StartupError(
            _(
                "{name} was not ready within {seconds:g} s. Its last output: {output} (log: {log})"
            ).format(
                name=name,
                seconds=within.total_seconds(),
                output=read_log_tail(log.path) or _("nothing"),
                log=log.path,
            )
        ) from error


async def stop_child(process: ChildProcess, stop_signal: signal.Signals, within: timedelta) -> None:
    """Send the stop signal; kill the child if it takes longer than `within`."""
    if process.returncode is None:
        process.send_signal(stop_signal)
    try:
        async with asyncio.timeout(within.total_seconds()):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
