"""Tools in agents' folders: new ones from a template, test cases, and checks by the agent's loader.

Functions block.
"""

import json
import re
import shutil
from pathlib import Path

from pydantic import JsonValue

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.tool_check import run_tool_check
from choir_common.wire.config import Config
from choir_common.wire.local_tools import ToolCheckReport, ToolCheckRequest
from choir_common.wire.model import JsonObject
from choir_common.wire.repository_files import TOOL_NAME_PATTERN
from choir_common.wire.validation_messages import pattern_rule
from choirctl.start.tool_templates import TEMPLATES, TemplateName, manifest_text, test_case_text

TOOLS, TEST_FILE = "tools", "test.json"
RESERVED = ("choir_", "mcp_")
MAX_NAME = 60


class LocalTools:
    """The tools in the folders below a state directory."""

    def __init__(self, home: Path, config: Config) -> None:
        self._home, self._config = home, config

    @property
    def agents(self) -> list[str]:
        """The agents whose tools come from their folder, sorted."""
        return [name for name in sorted(self._config.agents) if not self._has_repository(name)]

    def folder(self, agent: str) -> Path:
        """Return where an agent's tools are.

        Raises NotFound, and InvalidRequest for an agent with a repository.
        """
        if agent not in self._config.agents:
            raise NotFound(_("There is no agent {agent!r} in config.json.").format(agent=agent))
        if self._has_repository(agent):
            raise InvalidRequest(
                _(
                    "The tools of {agent} come from its repository. Change them in a clone, and "
                    "check them with `choirctl tool check PATH`."
                ).format(agent=agent)
            )
        return self._home / "agents" / agent / TOOLS

    def create(self, agent: str, name: str, template: TemplateName) -> list[Path]:
        """Write a new tool, and return its files; never overwrites one.

        Raises NotFound, InvalidRequest for a name that no tool may have, and Conflict.
        """
        top, stem = self.folder(agent), folder_name(name)
        _check_name(name)
        own, manifest, parts = top / stem, top / f"{stem}.json", TEMPLATES[template]
        if manifest.exists():
            raise Conflict(_("{manifest} exists; choose another name.").format(manifest=manifest))
        top.mkdir(parents=True, exist_ok=True)
        try:
            own.mkdir()
        except FileExistsError:
            raise Conflict(_("{own} exists; choose another name.").format(own=own)) from None
        program, test = own / parts.program, own / TEST_FILE
        try:
            program.write_text(parts.text)
            program.chmod(0o755)
            test.write_text(test_case_text(parts))
            # Last: without it there is no tool. x: another one may have been written meanwhile.
            with manifest.open("x") as file:
                file.write(manifest_text(parts, name, stem))
        except FileExistsError:
            shutil.rmtree(own)
            raise Conflict(
                _("{manifest} exists; choose another name.").format(manifest=manifest)
            ) from None
        return [manifest, program, test]

    def test_case(self, agent: str, name: str) -> tuple[JsonObject, JsonObject]:
        """Return the input of a tool's test case, and what the output has at least.

        Raises NotFound and InvalidRequest.
        """
        path = self.folder(agent) / folder_name(name) / TEST_FILE
        try:
            case = json.loads(path.read_text())
        except FileNotFoundError:
            raise NotFound(
                _(
                    "There is no test case {path}. Write the input as JSON after the tool's name."
                ).format(path=path)
            ) from None
        except (OSError, ValueError) as error:
            raise InvalidRequest(
                _("Cannot read {path}: {error}.").format(path=path, error=error)
            ) from None
        inputs = case.get("input") if isinstance(case, dict) else None
        expected = case.get("expect", {}) if isinstance(case, dict) else None
        if not isinstance(inputs, dict) or not isinstance(expected, dict):
            raise InvalidRequest(
                _('{path} must have the form {{"input": {{…}}, "expect": {{…}}}}.').format(
                    path=path
                )
            )
        return inputs, expected

    def _has_repository(self, agent: str) -> bool:
        repo = self._config.agents[agent].repo
        return repo is not None and bool(repo.url.strip())


def folder_name(name: str) -> str:
    """Return the name of a tool's files: the name that models see."""
    return name.replace(".", "_")


def check_folder(folder: Path, name: str = "") -> ToolCheckReport:
    """Return what the agent's loader says about a folder, or about one tool in it.

    Raises NotFound if there is no such tool, and Unavailable.
    """
    if not folder.is_dir():
        raise NotFound(_("There is no folder {folder}.").format(folder=folder))
    report = run_tool_check(ToolCheckRequest(directory=str(folder)))
    if not name:
        return report
    tools = tuple(tool for tool in report.tools if tool.name == name)
    stem = Path(tools[0].file).stem if tools else folder_name(name)
    faults = tuple(
        fault
        for fault in report.faults
        if fault.tool in (name, stem) or fault.file.split("/")[0].removesuffix(".json") == stem
    )
    if not tools and not faults:
        names = ", ".join(tool.name for tool in report.tools) or _("none")
        raise NotFound(
            _("There is no tool {name!r} in {folder}. Its tools: {names}.").format(
                name=name, folder=folder, names=names
            )
        )
    return ToolCheckReport(tools=tools, faults=faults)


def find_differences(expected: JsonObject, output: JsonObject) -> list[str]:
    """Return how an output differs from what a test case expects; other keys may have any value."""
    return [
        _("{key}: expected {short}, got {value}").format(
            key=key,
            short=_short(value),
            value=_short(output[key]) if key in output else _("nothing"),
        )
        for key, value in expected.items()
        if key not in output or output[key] != value
    ]


def _short(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)[:200]


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME or not re.fullmatch(TOOL_NAME_PATTERN, name):
        raise InvalidRequest(
            _("{name!r} is not the name of a tool: {pattern_rule}.").format(
                name=name[:80], pattern_rule=pattern_rule(TOOL_NAME_PATTERN)
            )
        )
    if folder_name(name).startswith(RESERVED):
        raise InvalidRequest(
            _("{name!r} is a name of Choir's own tools or of MCP servers; choose another.").format(
                name=name
            )
        )
