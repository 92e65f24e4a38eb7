"""External tools: a manifest fits or the start fails; a program runs walled in, as it was at the start."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from choir_agent.egress.route import EgressAddress
from choir_agent.tools.external_loader import load_external_tools
from choir_agent.tools.external_tool import ExternalTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.egress.credentials import ProxyIdentity, proxy_url
from choir_common.errors import StartupError
from choir_common.wire.model import JsonObject

KEY = "ab" * 32
CANARY = "canary-51ab-secret"
ECHO = """
import json, sys
given = json.load(sys.stdin)
print("noise for the log", file=sys.stderr)
print(json.dumps({"status": "success", "summary": "done", "given": given}))
"""


def manifest(name: str = "weather.today", **runtime: object) -> dict[str, object]:
    """Make a manifest; `runtime` replaces what is said of the runtime."""
    said = {"timeout_ms": 10_000, "side_effect": "read", "idempotent": True} | runtime
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {
        "llm": {"name": name, "description": "The weather.", "parameters": parameters},
        "runtime": said,
    }


class Place:
    """A /choir to put tools into."""

    def __init__(self, root: Path) -> None:
        self.choir = root / "choir"
        self.workspace = root / "ws"
        for directory in ("tools/global", "tools/agent"):
            (self.choir / directory).mkdir(parents=True)
        self.workspace.mkdir()

    def put(self, about: object, program: str | None = ECHO, file: str = "global/t") -> Path:
        place = self.choir / "tools" / file
        text = about if isinstance(about, str) else json.dumps(about)
        place.with_suffix(".json").write_text(text)
        if program is not None:
            place.write_text(f"#!{sys.executable} -IS\n{program}")
            place.chmod(0o755)
        return place

    def load(self, taken: tuple[str, ...] = ()) -> list[ExternalTool]:
        programs = ProgramRunner(self.workspace, "/tmp", egress=EgressAddress("/none", KEY, 1))
        return load_external_tools(self.choir, taken, programs)

    async def run(self, arguments: JsonObject | None = None, **context: object) -> JsonObject:
        [tool] = self.load()
        called = CallContext("call_1", "edge", **context)  # type: ignore[arg-type]
        return (await tool.run(called, arguments or {})).output


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_tool_gets_its_input_and_call_id_and_its_object_is_the_output(place: Place) -> None:
    place.put(manifest())
    output = await place.run({"city": "Bern"})
    assert output["given"] == {"call_id": "call_1", "input": {"city": "Bern"}}
    assert output["summary"] == "done"


@pytest.mark.parametrize(
    ("hosts", "user"),
    [
        (
            ["*.weather.example"],
            ProxyIdentity("weather.today", "call_1", ("*.weather.example",), True),
        ),
        ([], ProxyIdentity("weather.today", "call_1", ("named.example",))),
    ],
)
async def test_the_hosts_of_a_manifest_are_the_only_ones_in_the_calls_credentials(
    place: Place, hosts: list[str], user: ProxyIdentity
) -> None:
    program = 'import json, os; print(json.dumps({"url": os.environ["HTTPS_PROXY"]}))'
    place.put(manifest(network=True, hosts=hosts), program)
    output = await place.run(hosts=("named.example",))
    assert output["url"] == proxy_url(KEY, user, "127.0.0.1", 1)


async def test_a_tool_gets_the_secrets_its_manifest_names_and_its_log_is_kept_apart(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    program = """
import json, os, sys
given = json.load(sys.stdin)
seen = {"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}
print(json.dumps({"length": len(given["secrets"]["notion"]), **seen}))
"""
    place.put(manifest(secret_resources=["notion"]), program)
    output = await place.run(secrets={"notion": CANARY})
    assert output["length"] == len(CANARY)
    assert output["cwd"] == str(place.workspace)
    assert CANARY not in json.dumps(output)
    assert CANARY not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("raise SystemExit(3)", "failed"),
        ("print('no json')", "bad_result"),
        ("print('[1]')", "bad_result"),
        ("print('{}{}')", "bad_result"),
        ("pass", "bad_result"),
        ("import json; print(json.dumps({'x': 'y' * 3_000_000}))", "bad_result"),
        (
            "import json; print(json.dumps({'status': 'error', 'code': 'no_city'}))",
            "no_city",
        ),
        ("print('{}'); raise SystemExit(1)", "failed"),
        ("import time; time.sleep(60)", "timeout"),
    ],
)
async def test_what_goes_wrong_is_a_clear_error(place: Place, program: str, kind: str) -> None:
    place.put(manifest(timeout_ms=1_000 if kind == "timeout" else 10_000), program)
    with pytest.raises(ToolFailed) as caught:
        await place.run()
    assert caught.value.kind == kind


async def test_a_tool_without_network_can_make_no_socket(place: Place) -> None:
    program = """
import json, socket
found = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            socket.socket(family, kind)
            found.append(str(family))
        except PermissionError:
            pass
print(json.dumps({"made": found}))
"""
    place.put(manifest(network=False), program)
    assert (await place.run())["made"] == []
    place.put(manifest(network=True), program)
    assert len((await place.run())["made"]) >= 4  # type: ignore[arg-type]


async def test_a_program_changed_after_the_start_is_not_run(place: Place) -> None:
    program = place.put(manifest())
    [tool] = place.load()
    program.write_text("#!/bin/sh\necho '{}'\n")
    with pytest.raises(ToolFailed) as caught:
        await tool.run(CallContext("c", "edge"), {})
    assert caught.value.kind == "changed"
    program.unlink()
    with pytest.raises(ToolFailed):
        await tool.run(CallContext("c", "edge"), {})


def test_the_agents_own_tool_overrides_a_global_one_of_its_name(place: Place) -> None:
    place.put(manifest(timeout_ms=1_000))
    place.put(manifest("other.tool"), file="global/other")
    place.put(manifest(timeout_ms=2_000), file="agent/mine")
    names = [(tool.manifest.name, tool._executable.parent.name) for tool in place.load()]
    assert names == [("other.tool", "global"), ("weather.today", "agent")]


def test_another_program_or_manifest_is_another_set_of_tools(place: Place) -> None:
    place.put(manifest())
    first = ToolRegistry(place.load()).manifest_hash
    assert ToolRegistry(place.load()).manifest_hash == first
    place.put(manifest(), ECHO + "#")
    second = ToolRegistry(place.load()).manifest_hash
    place.put(manifest(version="2.0"), ECHO + "#")
    assert len({first, second, ToolRegistry(place.load()).manifest_hash}) == 3


def test_the_specs_own_spelling_is_read(place: Place) -> None:
    about = manifest(
        exec_path="/choir/tools/global/t", locks=[{"resource": "workspace", "mode": "X"}]
    )
    llm = about["llm"]
    assert isinstance(llm, dict)
    llm["input_schema"] = llm.pop("parameters")
    place.put(about)
    [tool] = place.load()
    assert tool.manifest.runtime.locks[0].resource == "workspace"


def _changed(change: Callable[[dict[str, dict[str, object]]], object]) -> dict[str, object]:
    about = manifest()
    change(about)  # type: ignore[arg-type]
    return about


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ("{", "file"),
        ("[]", "file"),
        ('{"llm": {}}', "llm.name"),
        (manifest("weather"), "llm.name"),
        (manifest("Weather.today"), "llm.name"),
        (manifest("choir.fs.read"), "is reserved"),
        (manifest("choir_fs.read"), "is reserved"),
        (manifest(timeout_ms=0), "runtime.timeout_ms"),
        (manifest(timeout_ms="1"), "runtime.timeout_ms"),
        (manifest(side_effect="some"), "runtime.side_effect"),
        (manifest(locks=[{"resource": "disk", "mode": "X"}]), "runtime.locks.0.resource"),
        (manifest(secret_resources=["all"]), "runtime.secret_resources"),
        (manifest(surprise=1), "runtime.surprise"),
        (manifest(exec_path="../../../ws/x"), "is outside"),
        (manifest(exec_path="/bin/sh"), "is outside"),
        (manifest(exec_path="/choir/../bin/sh"), "is outside"),
        (manifest(exec_path="link"), "is outside"),
        (manifest(exec_path="nothing"), "does not exist"),
        (manifest(exec_path="."), "does not exist"),
        (manifest(exec_path="t.json"), "not executable"),
        (_changed(lambda m: m["llm"].update(parameters={"type": "string"})), "llm.parameters"),
        (
            _changed(lambda m: m["llm"].update(parameters={"type": "object", "required": 1})),
            "llm.parameters",
        ),
        (
            _changed(
                lambda m: m["llm"].update(
                    parameters={"type": "object", "$ref": "http://127.0.0.1:1/x"}
                )
            ),
            "llm.parameters",
        ),
    ],
)
def test_a_manifest_that_does_not_fit_stops_the_start_and_says_why(
    place: Place, about: object, reason: str
) -> None:
    path = place.put(about)
    (path.parent / "link").symlink_to("/bin/sh")
    with pytest.raises(StartupError) as caught:
        place.load(("choir.fs.read",))
    assert reason in caught.value.message
    assert str(place.choir / "tools") in caught.value.message


def test_two_tools_of_one_name_in_one_place_stop_the_start(place: Place) -> None:
    place.put(manifest())
    place.put(manifest(), file="global/again")
    with pytest.raises(StartupError, match="have the name"):
        place.load()


def test_a_choir_without_tools_is_fine(tmp_path: Path) -> None:
    assert load_external_tools(tmp_path, (), ProgramRunner(tmp_path, "/tmp")) == []
