"""All MCP servers of the agent: starts and stops them as the settings say, and offers their tools."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Protocol

import structlog

from choir_agent.mcp_client.binary_files import BinaryFiles
from choir_agent.mcp_client.definitions import tool_prefix
from choir_agent.mcp_client.faults import McpServerError
from choir_agent.mcp_client.questions import ServerQuestions
from choir_agent.mcp_client.sampling import SampleCount, SampleSource, ServerSampling
from choir_agent.mcp_client.server import McpServer, ServerConnection
from choir_agent.mcp_client.server_host import ServerHost
from choir_agent.mcp_client.tool_pins import ApprovalSource, ToolPins
from choir_agent.settings import CurrentSettings
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import Tool
from choir_agent.tools.workspace import Workspace
from choir_common.confinement.paths import DEVICES, python_directories, system_paths
from choir_common.egress.key_placeholders import KeyProxy
from choir_common.i18n import _
from choir_common.wire.mcp_config import McpServerConfig
from choir_common.wire.rpc import MAX_MCP_SERVERS, McpServerStatus

log = structlog.get_logger("choir.agent.mcp")

NO_HOME = "/nonexistent"
OPTIONAL = "/opt"
"""Where programs are that belong to no package of the system."""


class StatusListener(Protocol):
    """Receiver of changes of the servers' states."""

    def servers_changed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _ServerSetup:
    """A server as the settings describe it; it is started again if anything differs."""

    config: McpServerConfig
    secrets: dict[str, str] = field(repr=False)
    """Values by the name of the secret."""


class McpServers:
    """The servers of this agent."""

    def __init__(
        self,
        registry: ToolRegistry,
        programs: ProgramRunner,
        workspace: Workspace,
        *,
        approvals: ApprovalSource,
        key_proxy: KeyProxy | None,
        choir: Path,
    ) -> None:
        """`choir` is the directory of the agent's tools and skills."""
        self._registry, self._programs = registry, programs
        self._approvals, self._pins = approvals, ToolPins(approvals)
        self._key_proxy, self._choir_dir = key_proxy, choir
        self._files = BinaryFiles(workspace)
        self._model: SampleSource | None = None
        self._counts: dict[str, SampleCount] = {}
        """What servers had of models, also before a restart."""
        self._setups: dict[str, _ServerSetup] = {}
        self._servers: dict[str, McpServer] = {}
        self._listener: StatusListener | None = None
        self._changed = asyncio.Event()

    def report_to(self, listener: StatusListener) -> None:
        """Tell this listener about changes from now on."""
        self._listener = listener

    def use_model(self, model: SampleSource) -> None:
        """Let this answer the servers that may use a model, from their next start on."""
        self._model = model

    def statuses(self) -> tuple[McpServerStatus, ...]:
        """Return the states of all servers, sorted by name."""
        names = sorted(self._servers)[:MAX_MCP_SERVERS]
        return tuple(self._servers[name].status for name in names)

    async def apply_settings(self, current: CurrentSettings) -> None:
        """Start, stop and restart servers as these settings say; does not wait for them."""
        self._setups = {
            name: _ServerSetup(config, {s: current.secret(s) or "" for s in config.secret_names()})
            for name, config in current.settings.mcp.items()
        }
        self._changed.set()

    async def run(self) -> None:
        """Keep the servers of the newest settings running until cancelled."""
        running: dict[str, tuple[_ServerSetup, asyncio.Task[None]]] = {}
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                setups = self._setups
                old = [name for name, (w, _) in running.items() if setups.get(name) != w]
                await _stop([running.pop(name)[1] for name in old])
                for name in old:
                    del self._servers[name]
                for name in setups.keys() - running.keys():
                    self._servers[name] = self._build(name, setups[name])
                    task = asyncio.create_task(self._servers[name].run(), name=f"mcp {name}")
                    running[name] = (setups[name], task)
                self.record_change()
        finally:
            await _stop([task for _, task in running.values()])

    def publish(self, server: str, tools: list[Tool]) -> tuple[str, ...]:
        """Offer these tools of a server and no others; return the names that were taken already."""
        return self._registry.replace_tools(tool_prefix(server), tools)

    def record_change(self) -> None:
        """Note that the state of a server has changed."""
        if self._listener is not None:
            self._listener.servers_changed()

    def _build(self, name: str, setup: _ServerSetup) -> McpServer:
        connector = _Connector(self._programs, self._key_proxy, self._choir_dir, name, setup)
        sampling = None
        if setup.config.sampling is not None and self._model is not None:
            sampling = ServerSampling(
                name,
                setup.config.sampling,
                approvals=self._approvals,
                model=self._model,
                count=self._counts.setdefault(name, SampleCount()),
            )
        return McpServer(
            name,
            setup.config,
            connect=connector.connect,
            pins=self._pins,
            questions=ServerQuestions(name, self._approvals),
            files=self._files,
            sampling=sampling,
            publisher=self,
        )


@dataclass(frozen=True, slots=True)
class _Connector:
    """Opens connections with one server."""

    programs: ProgramRunner
    key_proxy: KeyProxy | None
    choir_dir: Path
    name: str
    setup: _ServerSetup

    @asynccontextmanager
    async def connect(self, host: ServerHost) -> AsyncIterator[ServerConnection]:
        """Connect, and yield the connection; raises McpServerError. `host` answers the server's requests."""
        # The SDK takes 34 MB and more than a second: only an agent with servers imports it.
        sdk = await asyncio.to_thread(_import_sdk)
        config = self.setup.config
        start_timeout_s = config.start_timeout_ms / 1000
        for name, value in self.setup.secrets.items():
            if not value:
                how = f"mcp login {self.name}" if config.oauth else f"secret set {name}"
                raise McpServerError(
                    _("the secret {name} has no value: choirctl {how}").format(name=name, how=how)
                )
        if config.url is not None:
            secret = self.setup.secrets.get(config.token_secret or "")
            opened = sdk.connect_url(config.url, secret, self.key_proxy, start_timeout_s, host=host)
        else:
            root = self.programs.workspace if config.workspace else None
            opened = sdk.connect_program(
                self.programs, self._program(), start_timeout_s, host=host, root=root
            )
        async with opened as connection:
            yield connection

    def _program(self) -> Program:
        config = self.setup.config
        secrets = {name: self.setup.secrets[secret] for name, secret in config.secrets.items()}
        alone = {} if config.workspace else {"HOME": NO_HOME, "PWD": "/"}
        return Program(
            f"mcp-{self.name}",
            config.command,
            timeout_s=0,
            offline=not config.hosts,
            tool=f"mcp.{self.name}",
            hosts=config.hosts,
            is_limited=True,
            environment={**alone, "NODE_USE_ENV_PROXY": "1", **config.environment, **secrets},
            cwd="" if config.workspace else "/",
            runnable=() if config.workspace else self._runnable(),
        )

    def _runnable(self) -> tuple[str, ...]:
        """Return what a server without the workspace may read: programs, and nothing of the agent's work."""
        paths = (*system_paths({}), *python_directories(()), *map(Path, DEVICES), Path(OPTIONAL))
        return tuple(map(str, (*paths, self.choir_dir)))


def _import_sdk() -> ModuleType:
    from choir_agent.mcp_client import connection  # noqa: PLC0415 - see `connect`

    return connection


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until their servers have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
