"""Trial of one call of an external tool: runner, timeout and walls of a real call, without an agent.

Nothing is sent to control: there is no session, no log and no model. What the call writes to the workspace
stays.
"""

import asyncio
import contextlib
import time
from pathlib import Path

from choir_agent.arbiter.call_execution import CallOutcome, execute_call
from choir_agent.arbiter.rulings import CheckedCall
from choir_agent.egress.call_connections import ConnectionAccounts
from choir_agent.egress.relay import EgressRelay, relay_to
from choir_agent.settings import AgentProcessSettings
from choir_agent.tool_bench.refusals import list_refusals
from choir_agent.tools.artifacts import ArtifactStore
from choir_agent.tools.call_launcher_client import CallLauncherClient
from choir_agent.tools.external_loader import load_external_tools
from choir_agent.tools.external_tool import ExternalTool
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture, StreamSink
from choir_agent.tools.tool import CallContext
from choir_agent.tools.workspace import Workspace, create_staging
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.json_schema import find_violations
from choir_common.redactor import Redactor
from choir_common.wire.local_tools import MAX_STDERR_CHARS, ToolTrial, ToolTrialOrder

LANE = "edge"


class RecordingRunner(ProgramRunner):
    """Runs programs as an agent does, and keeps the exit code and standard error of the last one."""

    exit_code: int | None = None
    stderr: str = ""

    async def run(self, program: Program, stdout: StreamSink, stderr: StreamSink) -> int | None:
        """Run a program to its end; see `ProgramRunner.run`."""
        try:
            self.exit_code = await super().run(program, stdout, stderr)
        finally:
            if isinstance(stderr, OutputCapture):
                self.stderr = stderr.text()[:MAX_STDERR_CHARS]
        return self.exit_code


def run_trial(order: ToolTrialOrder, redactor: Redactor) -> ToolTrial:
    """Run the call and return what happened. Raises StartupError for a tool that cannot be loaded."""
    redactor.add_secrets([order.egress_key])
    relay = relay_to(order.egress_socket, order.egress_key) if order.egress_socket else None
    with asyncio.Runner(loop_factory=relay.make_event_loop if relay else None) as runner:
        return runner.run(_run(order, relay, redactor))


async def _run(order: ToolTrialOrder, relay: EgressRelay | None, redactor: Redactor) -> ToolTrial:
    settings = AgentProcessSettings.load()
    workspace = Workspace(Path(order.workspace))
    create_staging(workspace)
    workspace.quota.include(Path(settings.tmp_dir))
    workspace.quota.limit(order.workspace_limits)
    launcher = CallLauncherClient(settings.call_launcher)
    programs = RecordingRunner(
        workspace.root,
        settings.tmp_dir,
        egress=relay.route if relay else None,
        launcher=launcher,
        quota=workspace.quota,
    )
    tool = _find(order, programs)
    # a real call is checked before its tool runs, too
    if faults := find_violations(tool.manifest.llm.parameters, order.input):
        message = f"The input does not fit the manifest's parameters: {'; '.join(faults)}"
        refused = CallOutcome("refused", {"code": "invalid_input", "message": message})
        return _report(order, tool, refused, programs)
    call_id, start = new_id("call"), time.monotonic()
    context = CallContext(call_id, LANE)
    permit = CheckedCall(tool=tool, arguments=order.input, path="", locks=())
    async with relay.serving() if relay else contextlib.nullcontext():
        outcome = await execute_call(permit, context, ArtifactStore(workspace, redactor))
        duration_ms = round(1000 * (time.monotonic() - start))
        connections = await ConnectionAccounts(relay.route if relay else None).take(call_id)
    trial = _report(order, tool, outcome, programs)
    return trial.model_copy(
        update={
            "duration_ms": duration_ms,
            "connections": connections,
            "missing_walls": launcher.missing,
            "refusals": list_refusals(tool.manifest.runtime, trial, connections),
        }
    )


def _find(order: ToolTrialOrder, programs: ProgramRunner) -> ExternalTool:
    tools = load_external_tools(Path(order.choir_dir), (), programs)
    for tool in tools:
        if tool.manifest.name == order.tool:
            return tool
    names = ", ".join(tool.manifest.name for tool in tools) or _("none")
    raise StartupError(
        _("There is no tool {tool!r}. Tools of this agent: {names}.").format(
            tool=order.tool, names=names
        )
    )


def _report(
    order: ToolTrialOrder, tool: ExternalTool, outcome: CallOutcome, programs: RecordingRunner
) -> ToolTrial:
    runtime = tool.manifest.runtime
    return ToolTrial(
        tool=order.tool,
        input=order.input,
        status=outcome.status,
        output=outcome.output,
        duration_ms=0,
        exit_code=programs.exit_code,
        stderr=programs.stderr,
        network=runtime.network,
        secrets_left_out=runtime.secret_resources,
    )
