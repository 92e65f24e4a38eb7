"""The check names what the agent's start refuses, and a trial shows one call with what its walls refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from choir_agent.tool_bench.check import check_tools
from choir_agent.tools.external_loader import load_external_tools
from choir_agent.tools.program_runner import ProgramRunner
from choir_common.errors import StartupError
from choir_common.wire.local_tools import ToolCheckRequest, ToolFinding, ToolTrial, ToolTrialOrder
from choirctl.start.tool_templates import TEMPLATES, TemplateName, manifest_text


class Folder:
    """An agent's folder `tools`, as the agent also finds it in its image."""

    def __init__(self, top: Path) -> None:
        self.choir, self.path = top / "choir", top / "choir/tools/agent"
        self.path.mkdir(parents=True)
        self.workspace = top / "ws"
        self.workspace.mkdir()

    def write(self, name: str = "a.one", template: TemplateName = "python") -> Path:
        """Write a tool from a template; return its manifest."""
        folder = self.path / name.replace(".", "_")
        folder.mkdir()
        program = folder / TEMPLATES[template].program
        program.write_text(TEMPLATES[template].text)
        program.chmod(0o755)
        manifest = folder.with_suffix(".json")
        manifest.write_text(manifest_text(TEMPLATES[template], name, folder.name))
        return manifest

    def faults(self) -> list[ToolFinding]:
        return [*check_tools(ToolCheckRequest(directory=str(self.path))).faults]

    def run(self, name: str, **inputs: str) -> ToolTrial:
        order = ToolTrialOrder(
            tool=name, input={**inputs}, workspace=str(self.workspace), choir_dir=str(self.choir)
        )
        done = subprocess.run(
            [sys.executable, "-I", "-m", "choir_agent.tool_bench", "try"],
            input=order.model_dump_json().encode(),
            capture_output=True,
            check=True,
            timeout=120,
        )
        return ToolTrial.model_validate_json(done.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("template", [*TEMPLATES])
def test_a_new_tool_has_no_fault(folder: Folder, template: TemplateName) -> None:
    folder.write(template=template)
    assert folder.faults() == []


def test_everything_the_start_refuses_is_named_with_its_line(folder: Folder) -> None:
    for name, old, new in (
        ("a.reserved", '"a.reserved"', '"choir_a.reserved"'),
        ("b.timeout", '"timeout_ms": 30000', '"timeout_ms": 1'),
        ("c.taint", '"private": false', '"private": "no"'),
        ("d.outside", "d_outside/run.py", "../../../../bin/sh"),
        ("e.schema", '"type": "object"', '"type": "array"'),
        ("f.json", '"llm"', "llm"),
        ("g.twice", '"g.twice"', '"h.fine"'),
        ("i.same", '"i.same"', '"h.fi_ne"'),
    ):
        manifest = folder.write(name)
        text = manifest.read_text()
        assert old in text
        manifest.write_text(text.replace(old, new, 1))
    folder.write("h.fine")
    folder.write("h.fi.ne")
    (folder.write("j.mode").with_suffix("") / "run.py").chmod(0o644)
    named = {(fault.file, fault.line) for fault in folder.faults()}
    assert named == {
        ("a_reserved.json", 3),
        ("b_timeout.json", 21),
        ("c_taint.json", 25),
        ("d_outside.json", 20),
        ("e_schema.json", 5),
        ("f_json.json", 2),
        ("h_fine.json", 3),
        ("i_same.json", 3),
        ("j_mode.json", 20),
    }
    with pytest.raises(StartupError, match="a_reserved.json"):
        load_external_tools(folder.choir, (), ProgramRunner(folder.workspace, "/tmp"))


def test_links_are_refused_and_declarations_without_effect_are_warnings(folder: Folder) -> None:
    manifest = folder.write()
    text = manifest.read_text().replace('"side_effect"', '"hosts": ["x.org"],\n    "side_effect"')
    manifest.write_text(text)
    (manifest.parent / "a_one/data").symlink_to("/etc/passwd")
    (manifest.parent / "a_one/test.json").touch(mode=0o644)
    (manifest.parent / "a_one/test.json").chmod(0o666)
    found = {(fault.file, fault.level, fault.line) for fault in folder.faults()}
    assert found == {
        ("a_one/data", "refused", None),
        ("a_one/test.json", "warning", None),
        ("a_one.json", "warning", 23),
    }


def test_a_trial_shows_result_error_text_and_what_the_walls_refused(folder: Folder) -> None:
    folder.write("a.one")
    good = folder.run("a.one", text="three short words")
    assert (good.status, good.output["words"], good.exit_code) == ("success", 3, 0)
    assert good.refusals == () and good.duration_ms > 0
    wrong = folder.run("a.one", words="x")
    assert wrong.status == "refused" and wrong.exit_code is None

    program = folder.write("a.two").with_suffix("") / "run.py"
    program.write_text("#!/usr/bin/env python3\nimport socket\nsocket.socket()\n")
    denied = folder.run("a.two", text="x")
    assert denied.status == "error" and denied.exit_code == 1
    assert "PermissionError" in denied.stderr
    assert "network: true" in " ".join(denied.refusals), json.dumps(denied.model_dump())
