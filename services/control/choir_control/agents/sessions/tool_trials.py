"""Trials of an agent's external tools for operators: one call behind the agent's walls, without a session."""

import asyncio
from pathlib import Path

from choir_common.errors import NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.local_tools import ToolTrial, ToolTrialOrder, TryTool
from choir_control.agents.egress_registry import EgressRegistry
from choir_control.agents.runtimes.port import AgentRuntime, LaunchSpec
from choir_control.agents.sessions.launch import make_workspace
from choir_control.configuration.current import ConfigService
from choir_control.images.build_service import ImageBuildService
from choir_control.images.tool_check import ToolChecker, read_timeouts
from choir_control.settings import ControlSettings

MARGIN_S = 60.0
"""Time for the start of the program and its walls, in addition to the timeout of the tool itself."""


class ToolTrialService:
    """Runs one call of a tool as its files are now, not as they were built."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        configuration: ConfigService,
        build_service: ImageBuildService,
        tools: ToolChecker,
        runtime: AgentRuntime,
        egress: EgressRegistry,
    ) -> None:
        self._settings = settings
        self._configuration = configuration
        self._build_service = build_service
        self._tools = tools
        self._runtime = runtime
        self._egress = egress

    async def run(self, agent_id: str, tool: str, request: TryTool) -> ToolTrial:
        """Run one call and return what happened; a failed call is a result.

        Raises NotFound for an unknown agent or tool, InvalidRequest for tools that the agent does not load,
        and Unavailable. What the tool writes into the workspace stays, as after a real call.
        """
        config = self._configuration.current.config
        defaults = self._configuration.current.agent(agent_id).defaults
        async with self._build_service.staged(agent_id) as choir_dir:
            timeout_ms = await self._timeout_of(agent_id, tool, choir_dir)
            spec = LaunchSpec.for_trial(
                agent_id,
                workspace=await asyncio.to_thread(make_workspace, config, defaults.workspace),
                choir_dir=choir_dir,
                socket_dir=self._settings.agent_socket_dir(agent_id),
                docker_image=await self._build_service.current_docker_image(agent_id),
                egress_key=await self._egress.lend_key(agent_id),
            )
            order = ToolTrialOrder(
                tool=tool,
                input=request.input,
                workspace=str(spec.workspace),
                choir_dir=str(choir_dir),
                egress_socket=spec.egress_socket(str(spec.socket_dir)),
                egress_key=spec.egress_key,
                workspace_limits=config.workspaces[defaults.workspace].limits,
            )
            text = await self._runtime.run_trial(spec, order, timeout_ms / 1000 + MARGIN_S)
        try:
            return ToolTrial.model_validate_json(text)
        except ValueError:
            raise Unavailable(_("The trial ended without a report; see choird's log.")) from None

    async def _timeout_of(self, agent_id: str, tool: str, choir_dir: Path) -> int:
        """Return the timeout of a tool in ms; raises NotFound for an unknown one."""
        if self._build_service.has_engine:
            # The loader is not installed beside control: the trial program checks the tools itself.
            timeouts = await asyncio.to_thread(read_timeouts, choir_dir)
        else:
            report = await self._tools.read(agent_id, choir_dir)
            timeouts = {entry.name: entry.timeout_ms for entry in report.tools}
        if tool not in timeouts:
            names = ", ".join(timeouts) or _("none")
            raise NotFound(
                _("{agent_id} has no tool {tool!r}. Its tools: {names}.").format(
                    agent_id=agent_id, tool=tool[:80], names=names
                )
            )
        return timeouts[tool]
