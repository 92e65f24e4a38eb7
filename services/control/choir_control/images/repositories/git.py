"""Hardened git runner: every feature that lets a repository affect this host is disabled.

No configuration but ours, no hooks, filters, submodules or prompts, one protocol per run, and limits
on time, memory, disk and output.
"""

import asyncio
import contextlib
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from choir_common.errors import DeadlineExceeded, TooLarge, Unavailable
from choir_common.i18n import _
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.source import RepositorySource

FETCH_TIMEOUT_S = 120.0
ROOT = Path("/")
DEFAULT_TIMEOUT_S = 30.0
CHILDREN_GRACE_S = 1.0
END_GRACE_S = 10.0
MAX_OUTPUT_BYTES = 32 << 20
MAX_ERROR_CHARS = 600
MAX_PACK_BYTES = 512 << 20
MAX_MEMORY_BYTES = 4 << 30
INHERITED_VARIABLES = (
    "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
)  # fmt: skip
# By a shell, because git has no setting for these limits.
LIMIT_SCRIPT = (
    f"ulimit -c 0; ulimit -f {MAX_PACK_BYTES // 512}; "
    f'ulimit -v {MAX_MEMORY_BYTES // 1024} 2>/dev/null; exec "$@"'
)
GIT_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=false",
    "core.attributesFile=/dev/null",
    "core.bigFileThreshold=8m",
    "credential.helper=",
    "protocol.allow=never",
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    # a single pack, so that the limit on file size covers the whole fetch
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    "transfer.bundleURI=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=20",
    "advice.detachedHead=false",
)


@dataclass(frozen=True, slots=True)
class GitCommand:
    """Parameters of one git process."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    descriptors: tuple[int, ...]


class Git:
    """The git program, for the bare repositories of control."""

    def __init__(
        self, environment: Mapping[str, str], credentials: GitCredentials | None = None
    ) -> None:
        """`environment` is control's own; only allow-listed variables are passed to git."""
        self._keys = credentials or GitCredentials()
        variables = {name: environment[name] for name in INHERITED_VARIABLES if name in environment}
        self._environment = {
            "PATH": environment.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            # git must not read the user's configuration
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_SSH_VARIANT": "ssh",
            # The supervisor finds the process by this variable when control was killed.
            "CHOIR_STARTED_BY": "control",
            **variables,
        }

    def environment(self, protocol: str = "") -> dict[str, str]:
        """Return git's complete environment; git may use `protocol` and no other."""
        return {**self._environment, "GIT_ALLOW_PROTOCOL": protocol or "none"}

    def command(
        self, directory: Path, *arguments: str, settings: tuple[str, ...] = ()
    ) -> list[str]:
        """Return the command line for a bare repository; `settings` are added to the default ones."""
        options = [option for setting in (*GIT_SETTINGS, *settings) for option in ("-c", setting)]
        return [
            "/bin/sh", "-c", LIMIT_SCRIPT, "git",
            "git", "--no-pager", f"--git-dir={directory}", *options, *arguments,
        ]  # fmt: skip

    async def run(
        self,
        directory: Path,
        *arguments: str,
        remote: RepositorySource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        most: int = MAX_OUTPUT_BYTES,
        extra_environment: Mapping[str, str] = MappingProxyType({}),
        cwd: Path = ROOT,
    ) -> bytes:
        """Run git and return its output. It may reach only `remote`, with that source's credentials.

        `more` are additional environment variables, `cwd` is its working directory.

        Raises Unavailable with git's error text when it fails, DeadlineExceeded, TooLarge for more than
        `most` bytes.
        """
        with self._keys.provide(remote) as key_options:
            environment = {
                **self.environment(remote.protocol if remote else ""),
                "GIT_SSH_COMMAND": key_options.ssh_command,
                **extra_environment,
            }
            command = self.command(directory, *arguments, settings=key_options.settings)
            call = GitCommand(command, environment, cwd, key_options.descriptors)
            code, output, complaint = await self._run(call, arguments[0], timeout_s, most)
        if code != 0:
            hint = f" {key_options.refusal}" if key_options.refusal else self._hint(complaint)
            raise Unavailable(
                _("git {arguments} failed: {words}{hint}").format(
                    arguments=arguments[0], words=_words(complaint, code), hint=hint
                )
            )
        return output

    async def _run(
        self,
        call: GitCommand,
        name: str,
        within_s: float,
        most: int,
    ) -> tuple[int, bytes, bytes]:
        try:
            process = await _start(
                *call.command,
                env=call.environment,
                cwd=call.cwd,
                pass_fds=call.descriptors,
            )
        except OSError as error:
            raise Unavailable(
                _("Cannot run git: {error}. Is it installed?").format(error=error)
            ) from error
        try:
            async with asyncio.timeout(within_s):
                output, complaint = await asyncio.gather(
                    _read(process.stdout, most), _read(process.stderr, MAX_OUTPUT_BYTES)
                )
                code = await process.wait()
        except TimeoutError:
            raise DeadlineExceeded(
                _("git {name} took longer than {within_s:g} s.").format(
                    name=name, within_s=within_s
                )
            ) from None
        finally:
            await _end(process)
        return code, output, complaint

    def _hint(self, complaint: bytes) -> str:
        """Return advice for an unknown host key, or an empty text."""
        where = self._keys.known_hosts
        if where is None or b"Host key verification failed" not in complaint:
            return ""
        return (
            f" Its host key is not known: `ssh-keyscan HOST >> {where}`, and compare it with what the "
            "server's owner publishes."
        )


async def _read(stream: asyncio.StreamReader | None, max_output_bytes: int) -> bytes:
    output = bytearray()
    while stream is not None and (chunk := await stream.read(1 << 16)):
        output += chunk
        if len(output) > max_output_bytes:
            raise TooLarge(
                _("git's output exceeds {max_output_bytes} bytes.").format(
                    max_output_bytes=max_output_bytes
                )
            )
    return bytes(output)


async def _start(
    *command: str, env: Mapping[str, str], cwd: Path | str, pass_fds: tuple[int, ...]
) -> Process:
    """Start git in its own process group, with pipes for its output.

    A cancelled `create_subprocess_exec` kills git alone and then waits for git's child processes, which
    have its pipes open. So the start is not cancelled: git is ended right after it.
    """
    start_task = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    )
    try:
        return await asyncio.shield(start_task)
    except asyncio.CancelledError:
        await _end(await start_task)
        raise


async def _end(process: Process) -> None:
    """End git and its child processes when a call is cut short.

    SIGTERM first: git then removes its lock files. After SIGKILL they stay, and later calls fail on
    them. Processes that git started (ssh, receive-pack) have lock files of their own. They end when git
    has ended; only those that do not get the signal, because git may miss a file that it has just created.
    """
    if process.returncode is not None:
        return
    try:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHILDREN_GRACE_S):
                await _wait_for_group(process)
            return
        _signal_group(process, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_GRACE_S):
                await _wait_for_group(process)
    finally:
        _signal_group(process, signal.SIGKILL)
        await asyncio.shield(process.wait())


async def _wait_for_group(process: Process) -> None:
    """Wait until git and all that it started have ended."""
    await process.wait()
    while _signal_group(process, 0):  # noqa: ASYNC110 - nothing tells when they end
        await asyncio.sleep(0.01)


def _signal_group(process: Process, number: int) -> bool:
    """Send a signal to git's process group; return whether the group has members."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _words(complaint: bytes, code: int) -> str:
    """Return the end of git's error output as one line, without control characters."""
    text = complaint.decode("utf-8", "replace")
    # a remote's text is shown in terminals: remove escape sequences
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]", " ", text)
    text = " ".join(text.split())[-MAX_ERROR_CHARS:]
    return text or (f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")
