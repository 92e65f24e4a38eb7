"""The examples that need no running Choir: a tool, a skill, configurations and an MCP server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from typer.testing import CliRunner

from choir_common.skill_folders.folder import read_skill_folder
from choir_common.wire.config import Config
from choirctl.app import COMMANDS, build_app
from tests.support.documents import ROOT

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
MAX_LINES = 20
BASE: dict[str, Any] = {
    "agents": {"main": {"defaults": {"workspace": "w", "llm": "m", "dm": "d"}}},
    "workspaces": {"w": {"path": "/tmp/w"}},
    "models": {"m": {"model": "x"}},
    "gateways": {"console": {"type": "console"}},
    "dms": {"d": {"gateway": "console", "user_id": "u"}},
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_example_has_a_short_page(folder: Path) -> None:
    assert len((folder / "README.md").read_text().splitlines()) <= MAX_LINES
    assert f"[{folder.name}]" in (EXAMPLES / "README.md").read_text()


def test_the_tool_passes_the_agents_check_and_its_own_test_case() -> None:
    tools = EXAMPLES / "tool/tools"
    app = build_app({entry.name for entry in COMMANDS})
    checked = CliRunner().invoke(app, ["tool", "check", str(tools), "--json"])
    assert checked.exit_code == 0, checked.output
    case = json.loads((tools / "dice_roll/test.json").read_text())
    given = json.dumps({"call_id": "c", "input": case["input"]})
    done = subprocess.run(
        [tools / "dice_roll/run.py"], input=given, capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert case["expect"].items() <= result.items() and len(result["rolled"]) == 3


def test_the_skill_is_accepted_and_its_script_lists_tasks(tmp_path: Path) -> None:
    folder = read_skill_folder(EXAMPLES / "skill/meeting-notes")
    assert folder.name == "meeting-notes"
    notes = tmp_path / "notes.txt"
    notes.write_text("We take the blue paint.\nAnn orders chairs by Friday.\n")
    script = EXAMPLES / "skill/meeting-notes/scripts/tasks.py"
    done = subprocess.run(
        [sys.executable, script, notes], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2: Ann orders chairs by Friday.\n"


@pytest.mark.parametrize(
    "file", sorted(EXAMPLES.glob("*/config.json")), ids=lambda it: it.parent.name
)
def test_each_configuration_is_valid(file: Path) -> None:
    given = json.loads(file.read_text())
    config = Config.model_validate_json(json.dumps({**BASE, **given}))
    assert given.keys() <= json.loads(config.model_dump_json()).keys()


async def test_the_mcp_server_tells_the_time() -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[str(EXAMPLES / "mcp-server/clock.py")]
    )
    async with Client(stdio_client(server)) as client:
        (tool,) = (await client.list_tools()).tools
        answer = await client.call_tool(tool.name, {"zone": "Asia/Tokyo"})
    assert not answer.is_error and "+09:00" in str(answer.content)
