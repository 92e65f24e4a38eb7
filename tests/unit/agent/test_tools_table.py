"""The README's table of tools says what the manifests say."""

from pathlib import Path

from choir_agent.control_client.control_client import ControlClient
from choir_agent.credentials.git_access import GitAccess
from choir_agent.settings import AgentProcessSettings
from choir_agent.tools.manifest import RuntimeView, ToolManifest
from choir_agent.tools.workspace import Workspace
from choir_agent.toolset import build_toolset
from choir_common.eventlog.tool_results import output_source
from choir_common.wire.rpc import AgentStartParameters
from tests.support.agent_fakes import silent_log

README = Path(__file__).parents[3] / "services/agent/README.md"
HEAD = (
    "| tool | lanes | locks | side effect | repeatable | where |",
    "|---|---|---|---|---|---|",
)


def row(manifest: ToolManifest) -> str:
    """Return a tool's line of the table."""
    runtime = manifest.runtime
    lanes = runtime.lanes
    again = "yes" if runtime.idempotent else "no"
    where = "host" if runtime.host else "agent"
    return (
        f"| `{manifest.name}` | {lanes} | {locks(runtime)} | {runtime.side_effect} | {again} "
        f"| {where} |"
    )


def locks(runtime: RuntimeView) -> str:
    """Return the locks as text."""
    named = [f"`{lock.resource.replace('{path}', '<path>')}` {lock.mode}" for lock in runtime.locks]
    return ", ".join(named) or "none"


async def test_the_table_of_tools_is_what_the_registry_holds(tmp_path: Path) -> None:
    boot = AgentStartParameters(
        agent_id="main", session_id="s", epoch=1, lease_token="t",
        endpoint=f"unix://{tmp_path}/s", workspace=str(tmp_path), choir_dir=str(tmp_path),
    )  # fmt: skip
    control, workspace = ControlClient(boot), Workspace(tmp_path)
    session_log = silent_log("s")
    git = GitAccess(str(tmp_path), tmp_path)
    toolset = build_toolset(
        control=control,
        workspace=workspace,
        session_log=session_log,
        settings=AgentProcessSettings(tmp_dir=str(tmp_path)),
        choir_dir=tmp_path,
        git=git,
    )
    wanted = [*HEAD, *(row(manifest) for manifest in toolset.registry.manifests())]
    found = [line for line in README.read_text().splitlines() if line.startswith("| ")]
    table = "\n".join(wanted)
    other_sources = [
        manifest.name
        for manifest in toolset.registry.manifests()
        if manifest.runtime.source != output_source(manifest.name, {})
    ]
    await control.close()
    workspace.close()
    missing = [line for line in wanted if line not in [*found, HEAD[1]]]
    assert not missing, f"services/agent/README.md should hold this table:\n{table}"
    stale = [line for line in found if line.startswith("| `choir.") and line not in wanted]
    assert not stale
    assert not other_sources, "give these tools a row in SOURCE_BY_TOOL (eventlog/tool_results.py)"
