"""One table says what there is to command: held against the routes, choirctl, and the tests themselves.

A route or a command without a test that uses it against a running system fails here; of choirctl only what a
test sees succeed counts.
"""

import ast
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from choir_control.app import ControlApp
from choir_control.conversations.commands.table import CHAT_COMMANDS
from choir_control.settings import ControlSecrets, ControlSettings
from choirctl.app import COMMANDS, build_app
from tests.service.control.hand_runtime import HandRuntime
from tests.support.coverage import SHELL, SuiteCoverage, collect_coverage, commands_of

# commands of the machine choirctl runs on: no choird is asked, or there is none yet
LOCAL = {
    "up",
    "down",
    "doctor",
    "init",
    "service install",
    "service uninstall",
    "service status",
    "uninstall",
    "version",
    "logs",
    "tls",
    "agent init",
    "agent delete",
    "config schema",
    "config set",
    "db status",
    "db migrate",
    "db backup",
    "db restore",
    "backup create",
    "backup list",
    "backup verify",
    "backup restore",
    "backup prune",
    "upgrade",
    "secret list",
    "secret set",
    "secret delete",
    "mcp add",
    "mcp import",
    "mcp login",
    "mcp logout",
    "mcp remove",
    "mcp serve",
    "tool new",
    "tool check",
    "tool list",
    "skill list",
    "skill add",
    "skill show",
    "skill approve",
    "skill remove",
    # they read `GET /v1/agents`, whose row is that of `agent list`
    "mcp test",
    "harness list",
    "harness test",
}


@pytest.fixture(scope="module")
def tried() -> SuiteCoverage:
    return collect_coverage()


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every route of the OpenAPI document, as `METHOD /path`."""
    settings = ControlSettings(
        home=tmp_path_factory.mktemp("home"), postgres_dsn="postgresql://nobody@127.0.0.1:1/x"
    )
    control = ControlApp(settings, ControlSecrets(), HandRuntime())
    paths = control.http.host_app.openapi()["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


@pytest.fixture(scope="module")
def commands() -> set[str]:
    """Every command of choirctl, by its words."""
    top = typer.main.get_command(build_app({entry.name for entry in COMMANDS}))
    assert isinstance(top, TyperGroup)
    found: set[str] = set()
    for name, command in top.commands.items():
        inner = command.commands if isinstance(command, TyperGroup) else None
        found |= {name} if inner is None else {f"{name} {word}" for word in inner}
    return found


def test_every_route_for_operators_stands_in_the_table(routes: set[str]) -> None:
    served = {route for route in routes if " /v1/" in route}
    assert served == {row.route for row in CHAT_COMMANDS if row.route}


def test_every_command_of_choirctl_stands_in_the_table_or_is_local(commands: set[str]) -> None:
    named = {row.choirctl for row in CHAT_COMMANDS if row.choirctl}
    assert commands - LOCAL == named


def test_every_route_is_tried_against_a_running_system(
    routes: set[str], tried: SuiteCoverage
) -> None:
    by_route = {row.route: row.choirctl for row in CHAT_COMMANDS}
    untried = []
    for route in sorted(routes):
        method, path = route.split()
        command = by_route.get(route)
        if not (tried.route(method, path) or (command and tried.command(command))):
            untried.append(route)
    assert not untried, f"no test calls: {', '.join(untried)}"


def test_every_command_of_choirctl_is_tried_against_a_running_system(
    commands: set[str], tried: SuiteCoverage
) -> None:
    untried = sorted(name for name in commands if not tried.command(name))
    assert not untried, f"no test runs: {', '.join(untried)}"


def test_every_typed_command_is_tried_in_a_conversation(tried: SuiteCoverage) -> None:
    said = {text.split("@")[0] for words in tried.words for text in words if text.startswith("/")}
    typed = {row.typed_form for row in CHAT_COMMANDS if row.typed_form}
    untried = [
        name
        for name in typed
        if not any(text == name or text.startswith(f"{name} ") for text in said)
    ]
    assert not untried, f"no test says: {', '.join(sorted(untried))}"


def test_what_no_test_names_is_found_untried(tried: SuiteCoverage) -> None:
    assert not tried.route("GET", "/v1/agents/{agent_id}/" + "nothing")
    assert not tried.command("agent " + "dance")


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ('def test_x(s):\n s.succeeds("agent", "list")', True),
        ('def test_x(s):\n s.data(*("agent", "list"), name)', True),
        ('def test_x(s):\n s.fails(3, "agent", "list")', False),
        ('def test_x(s):\n words = ("agent", "list")', False),
        ('def test_x(s):\n s.succeeds(name, "agent", "list")', False),
        ('def never_called(s):\n s.succeeds("agent", "list")', False),
    ],
)
def test_only_a_command_that_a_test_sees_succeed_counts(source: str, counts: bool) -> None:
    through = f"from {SHELL} import Shell\n"
    assert (("agent", "list") in commands_of(ast.parse(through + source))) is counts
    assert not [*commands_of(ast.parse(source))], "by something else than the shell"


def test_the_table_is_written_where_its_readers_are_told() -> None:
    table = Path("services/control/choir_control/conversations/commands/table.py").read_text()
    assert "tests/contract/test_command_table.py" in table
