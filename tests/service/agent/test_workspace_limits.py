"""Limits of a workspace: tools refuse to write over them, and programs that do are ended."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from choir_agent.settings import CurrentSettings
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.wire.config import WorkspaceLimits
from tests.service.agent.web_calls import SETTINGS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LOUD: needs Linux's process rules")
CONTEXT = CallContext(call_id="call_1", lane="edge")


@dataclass
class Settings:
    """Settings whose limits a test changes."""

    limits: WorkspaceLimits

    def current(self) -> CurrentSettings:
        return CurrentSettings(SETTINGS.model_copy(update={"workspace_limits": self.limits}))


def limited(root: Path, *, mb: int | None = None, files: int | None = None) -> Workspace:
    workspace = Workspace(root)
    workspace.quota.follow(Settings(WorkspaceLimits(mb=mb, files=files)))
    return workspace


def runner(workspace: Workspace) -> ProgramRunner:
    return ProgramRunner(workspace.root, "/tmp", quota=workspace.quota)


async def run(workspace: Workspace, script: str) -> int | None:
    program = Program("call_1", [sys.executable, "-I", "-c", script], 60)
    capture = OutputCapture(10_000)
    return await runner(workspace).run(program, capture, capture)


def count(root: Path) -> int:
    return sum(1 for _ in root.rglob("*"))


async def test_a_program_that_fills_the_workspace_with_many_files_is_ended(tmp_path: Path) -> None:
    workspace = limited(tmp_path, mb=5)
    script = (
        "import time\n"
        "for n in range(10**9): open(f'f{n}', 'wb').write(b'x' * 100_000); time.sleep(0.005)"
    )
    with pytest.raises(ToolFailed, match="the limit is 5 MB") as failure:
        await run(workspace, script)
    assert failure.value.kind == "over_limit"


async def test_in_a_full_workspace_commands_delete_files_but_write_none(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 2_000_000)
    workspace = limited(tmp_path, mb=1)
    shell = ShellTool(runner(workspace))
    failed = await shell.run(CONTEXT, {"command": "echo more > note; cat note; ls -s note"})
    assert "its limit is 1 MB" in str(failed.output["note"])
    assert (tmp_path / "note").read_bytes() == b""
    await shell.run(CONTEXT, {"command": "rm large"})
    done = await shell.run(CONTEXT, {"command": "echo more > note; cat note"})
    assert (done.output["stdout"], "note" in done.output) == ("more\n", False)


async def test_a_program_that_deletes_from_a_full_workspace_runs_to_its_end(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    for number in range(600):
        (root / str(number)).touch()
    workspace = limited(root, files=100)
    script = (
        "import os, time\n"
        "for n in range(600):\n"
        "    os.remove(str(n))\n"
        "    for beside in 'abc': open(f'../{beside}{n}', 'w').close()\n"
        "    time.sleep(0.002)"
    )
    assert await run(workspace, script) == 0
    assert count(root) == 0


async def test_a_tool_refuses_a_file_over_the_limit_and_says_what_to_do(tmp_path: Path) -> None:
    workspace = limited(tmp_path, mb=1)
    assert workspace.replace_file("a", b"x" * 600_000)
    with pytest.raises(
        ToolFailed, match=r"has 1 MB in 1 files.*limit is 1 MB.*choir\.exec"
    ) as failure:
        workspace.replace_file("b", b"x" * 600_000)
    assert failure.value.kind == "workspace_full"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_tools_replace_counts_once(tmp_path: Path) -> None:
    workspace = limited(tmp_path, mb=1)
    for _ in range(20):
        workspace.replace_file("a", b"x" * 300_000)


async def test_a_file_with_several_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"x" * 700_000)
    for number in range(1, 4):
        (tmp_path / str(number)).hardlink_to(tmp_path / "0")
    assert await limited(tmp_path, mb=1).quota.find_excess() == ""


async def test_a_limit_that_is_raised_is_in_force_at_once(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 2_000_000)
    workspace, settings = Workspace(tmp_path), Settings(WorkspaceLimits(mb=1))
    workspace.quota.follow(settings)
    assert await workspace.quota.find_excess() != ""
    settings.limits = WorkspaceLimits(mb=3)
    assert await workspace.quota.find_excess() == ""
    settings.limits = WorkspaceLimits(mb=1)
    assert await workspace.quota.find_excess() != ""
    settings.limits = WorkspaceLimits(mb=None, files=None)
    assert await workspace.quota.find_excess() == ""


async def test_without_a_limit_nothing_is_counted(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 2_000_000)
    assert await limited(tmp_path).quota.find_excess() == ""
