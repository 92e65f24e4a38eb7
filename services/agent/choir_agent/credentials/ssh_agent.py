"""A private ssh-agent process for one key, which it receives on standard input.

The key is in no file, argument or environment variable, and the ssh-agent ends with this process.
"""

import asyncio
import contextlib
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

from choir_common.errors import ChoirError
from choir_common.i18n import _

PATH = "/usr/local/bin:/usr/bin:/bin"
START_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.01


class SshAgentFailed(ChoirError):
    """The private key cannot be used."""


class SshAgent:
    """One ssh-agent process with one key."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._process: Process | None = None

    async def open(self, key: str) -> None:
        """Start the process and add the key; raises SshAgentFailed."""
        async with contextlib.AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.close)
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    await self._start()
                    await self._add(key)
            except TimeoutError as error:
                reason = f"ssh-agent was not ready within {START_TIMEOUT_S:g} s"
                raise SshAgentFailed(reason) from error
            except (OSError, SshAgentFailed) as error:
                raise SshAgentFailed(f"{error}") from error
            on_failure.pop_all()

    async def close(self) -> None:
        """End the process, and the key with it."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _start(self) -> None:
        process = self._process = await self._spawn(
            _with_parent_death_signal([_program("ssh-agent"), "-D", "-a", str(self.socket)]),
            {},
            stdin=DEVNULL,
        )
        while not await _answers(self.socket):
            if process.returncode is not None:
                raise SshAgentFailed(
                    _("ssh-agent ended with {returncode}").format(returncode=process.returncode)
                )
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _add(self, key: str) -> None:
        environment = {"SSH_AUTH_SOCK": str(self.socket), "SSH_ASKPASS_REQUIRE": "never"}
        process = await self._spawn([_program("ssh-add"), "-q", "-"], environment, stdin=PIPE)
        try:
            # ssh-add rejects a key without a final line break.
            text = "\n".join(key.strip().splitlines()) + "\n"
            _errors, output = await process.communicate(text.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            reason = " ".join(output.decode(errors="replace").split())[:200]
            raise SshAgentFailed(_("ssh-add rejected the key: {reason}").format(reason=reason))

    async def _spawn(self, argv: list[str], environment: dict[str, str], stdin: int) -> Process:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=stdin,
            stdout=DEVNULL,
            stderr=PIPE if stdin == PIPE else DEVNULL,
            env={"PATH": PATH, **environment},
            cwd="/",
            start_new_session=True,
        )


async def _answers(path: Path) -> bool:
    # The socket's existence is not enough: it is bound a moment before it accepts connections.
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


def _program(name: str) -> str:
    path = shutil.which(name, path=PATH)
    if path is None:
        raise SshAgentFailed(_("{name} is not installed").format(name=name))
    return path


def _with_parent_death_signal(argv: list[str]) -> list[str]:
    """Make the kernel kill the process when ours ends; without setpriv the runtime does that."""
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else argv
