"""Git access of an agent: configuration in a private directory, credentials served from memory.

Tools that run programs add its environment. `credential_server` serves tokens, `ssh_agent` private keys.
"""

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import structlog

from choir_agent.credentials.config_files import git_config, is_private_key, ssh_config
from choir_agent.credentials.credential_server import CredentialServer, GitCredential
from choir_agent.credentials.ssh_agent import SshAgent, SshAgentFailed
from choir_agent.egress import proxy_connect
from choir_agent.egress.route import unproxied_hosts
from choir_agent.settings import CurrentSettings
from choir_common.egress.key_placeholders import is_placeholder
from choir_common.wire.config import GitIdentityConfig

log = structlog.get_logger("choir.agent.git")

HELPER = "git-cred-helper"
SSH_PROXY_COMMAND = " ".join(
    shlex.quote(word) for word in (sys.executable, "-I", "-S", proxy_connect.__file__)
)
HELPER_SCRIPT = Path(__file__).with_name("cred_helper.py")
SHORT_TMP = Path("/tmp")  # noqa: S108 - in an agent's view it is another name of its own directory
LONGEST_SOCKET_PATH = 100
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class GitAccess:
    """Git identity of this agent, limited to its hosts."""

    def __init__(self, tmp_dir: str, home: Path, *, proxied: bool = False) -> None:
        """Use a private directory below `tmp_dir`, and the user's own git settings in `home`.

        If `proxied`, git and ssh connect through the egress proxy.
        """
        self._proxied = proxied
        self._proxy_command = SSH_PROXY_COMMAND if proxied else None
        self._tmp_dir = tmp_dir
        self._home = home
        self._directory: Path | None = None
        self._credential_server = CredentialServer()
        self._ssh_agent: SshAgent | None = None
        self._key: str | None = None
        self._generation = 0
        self._environment = NO_ENVIRONMENT
        self._adopting = asyncio.Lock()

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that a program needs for git; they contain no secret."""
        return self._environment

    async def apply_settings(self, current: CurrentSettings) -> None:
        """Switch to the identity of these settings, or to none; logs an OSError instead of raising it."""
        # Settings may change again while an earlier change is still being applied.
        async with self._adopting:
            identity = current.settings.git_identity
            secret = current.secret(identity.secret) if identity else None
            try:
                await self._adopt(identity, secret)
            except OSError as error:
                log.warning("cannot configure the git identity", error=str(error))

    async def close(self) -> None:
        """Stop all helpers and delete the private directory."""
        self._environment, self._credential_server.credential = NO_ENVIRONMENT, None
        await self._credential_server.close()
        await self._end_ssh_agent()
        if self._directory is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def _adopt(self, identity: GitIdentityConfig | None, secret: str | None) -> None:
        if identity is None:
            self._environment, self._credential_server.credential = NO_ENVIRONMENT, None
            await self._use_key(None)
            return
        if self._directory is None:
            self._directory = await asyncio.to_thread(self._make_directory)
            await self._credential_server.open(self._directory / "door")
        key = secret if secret and is_private_key(secret) else None
        # Replace both at once: a request must not combine one identity with the token of another.
        self._credential_server.credential = GitCredential(identity, None if key else secret)
        is_proxied = is_placeholder(secret)
        await self._use_key(key)
        helper = _helper_command(self._directory)
        await asyncio.to_thread(
            self._write, self._directory, identity, helper, is_proxied=is_proxied
        )
        self._environment = MappingProxyType(
            {
                **_environment(self._directory, helper),
                **(unproxied_hosts(except_for=identity.hosts) if self._proxied else {}),
            }
        )

    def _make_directory(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="choir-git-", dir=self._tmp_dir))
        # A symlink works even where the temporary directory is mounted noexec.
        (directory / HELPER).symlink_to(sys.executable)
        return _shorter_path(directory)

    def _write(
        self, directory: Path, identity: GitIdentityConfig, helper: str, *, is_proxied: bool
    ) -> None:
        own, ssh = self._home / ".gitconfig", directory / "ssh_config"
        socket = self._ssh_agent.socket if self._ssh_agent else None
        _replace(
            ssh, ssh_config(identity.hosts, directory / "known_hosts", socket, self._proxy_command)
        )
        config = git_config(identity, own, ssh, helper, is_proxied=is_proxied)
        _replace(directory / "gitconfig", config)

    async def _use_key(self, key: str | None) -> None:
        if key == self._key:
            return
        await self._end_ssh_agent()
        self._key = key
        if key is None or self._directory is None:
            return
        self._generation += 1
        agent = SshAgent(self._directory / f"ssh-{self._generation}")
        try:
            await agent.open(key)
        except SshAgentFailed as error:
            log.warning("cannot load the private key for git", error=error.message)
            return
        self._ssh_agent = agent

    async def _end_ssh_agent(self) -> None:
        agent, self._ssh_agent, self._key = self._ssh_agent, None, None
        if agent is not None:
            await agent.close()


def _environment(directory: Path, helper: str) -> dict[str, str]:
    # A helper in the repository's configuration could store the token on disk. The environment is
    # applied after the repository's configuration, so the empty entry removes such helpers.
    return {
        "GIT_CONFIG_GLOBAL": str(directory / "gitconfig"),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "credential.helper",
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": "credential.helper",
        "GIT_CONFIG_VALUE_1": helper,
    }


def _helper_command(directory: Path) -> str:
    arguments = (str(directory / HELPER), "-I", "-S", str(HELPER_SCRIPT), str(directory / "door"))
    return "!" + " ".join(map(shlex.quote, arguments))


def _shorter_path(directory: Path) -> Path:
    """Return a shorter name of the same directory if socket paths in it would be too long."""
    other = SHORT_TMP / directory.name
    if len(str(directory / "ssh-1000")) <= LONGEST_SOCKET_PATH or not other.exists():
        return directory
    return other if other.samefile(directory) else directory


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
