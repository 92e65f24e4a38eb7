"""The command line as a whole: help, exit codes, and what goes to which stream."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from choirctl.app import COMMANDS, CommandEntry, build_app
from choirctl.examples import EXAMPLES
from tests.support.preloaded_choirctl import run_choirctl


def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run choirctl without a home directory."""
    return run_choirctl(*args, env={"HOME": "/nonexistent", **(env or {})})


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(entry.name in done.stdout for entry in COMMANDS)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_table_says_what_the_command_itself_says(entry: CommandEntry) -> None:
    app = typer.Typer()
    importlib.import_module(entry.module).register(app)
    texts = [command.callback.__doc__ for command in app.registered_commands if command.callback]
    texts += [group.help for group in app.registered_groups]
    assert [str(text).splitlines()[0] for text in texts] == [entry.help]


def leaves() -> dict[str, TyperCommand]:
    """Return every command, by the words after `choirctl`."""
    top = typer.main.get_command(build_app({entry.name for entry in COMMANDS}))
    assert isinstance(top, TyperGroup)
    found: dict[str, TyperCommand] = {}
    for name, command in top.commands.items():
        if isinstance(command, TyperGroup):
            found |= {f"{name} {word}": leaf for word, leaf in command.commands.items()}  # type: ignore[misc]
        else:
            assert isinstance(command, TyperCommand)
            found[name] = command
    return found


def test_every_command_has_help_an_example_and_data() -> None:
    for name, command in leaves().items():
        assert command.help and command.help.strip().split("\n")[0].endswith((".", ":")), name
        example = EXAMPLES.get(name)
        assert example and f"{example} ".startswith(f"choirctl {name} "), f"no example of {name}"
        assert command.epilog == f"Example: {example}"
        options = {option for param in command.params for option in param.opts}
        # a schema and the MCP protocol are JSON, whatever one asks for
        assert "--json" in options or name in ("config schema", "mcp serve"), name
        assert all(getattr(param, "help", "x") for param in command.params), name


def test_a_list_of_commands_tells_each_in_a_whole_sentence() -> None:
    top = typer.main.get_command(build_app({entry.name for entry in COMMANDS}))
    assert isinstance(top, TyperGroup)
    for group in (top, *(c for c in top.commands.values() if isinstance(c, TyperGroup))):
        # as wide as help is on a terminal of 80 columns, however wide this one is
        longest = max(len(name) for name in group.commands)
        for name, command in group.commands.items():
            assert not command.get_short_help_str(78 - 6 - longest).endswith("..."), name


def test_only_the_command_that_is_called_is_loaded() -> None:
    code = "import sys, choirctl.app as a; a.build_app({'version'}); print('httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert build_app(()).registered_commands


def test_an_unknown_command_is_a_usage_error() -> None:
    done = run("stats")
    assert done.returncode == 2
    assert "status" in done.stderr
    assert done.stdout == ""


def test_version_is_data() -> None:
    assert json.loads(run("version", "--json").stdout)["version"]


@pytest.mark.parametrize(
    "args", [("status",), ("agent", "list"), ("session", "list"), ("chat", "-m", "hello")]
)
def test_without_a_choir_a_command_says_so_and_exits_6(args: tuple[str, ...]) -> None:
    done = run(*args, "--home", "/tmp/choir-is-not-here")
    assert done.returncode == 6
    assert "choirctl up" in done.stderr
    assert "/tmp/choir-is-not-here/socks/choird.sock" in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_an_address_that_is_none_is_a_usage_error() -> None:
    done = run("status", "--url", "choir.example")
    assert done.returncode == 2
    assert "http://host:port" in done.stderr


def test_a_dead_address_is_unavailable() -> None:
    done = run("status", env={"CHOIR_URL": "http://127.0.0.1:9"})
    assert done.returncode == 6
    assert "http://127.0.0.1:9" in done.stderr


def test_nothing_to_say_is_a_usage_error() -> None:
    done = run("chat", "--home", "/tmp/choir-is-not-here")
    assert done.returncode == 2


def test_agent_and_dm_exclude_each_other() -> None:
    done = run("chat", "--agent", "main", "--dm", "console", "-m", "hello")
    assert done.returncode == 2


def test_down_without_a_choir_is_no_error() -> None:
    done = run("down", "--json", "--home", "/tmp/choir-is-not-here")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"home": "/tmp/choir-is-not-here", "stopped": False}


def test_a_missing_score_is_named_before_anything_is_made(tmp_path: Path) -> None:
    home = Path("/tmp") / f"ch-{tmp_path.stat().st_ino}"
    done = run("up", "--detach", "--score", "/no/score.json", "--home", str(home))
    assert done.returncode == 2
    assert "/no/score.json" in done.stderr
    assert not home.exists()


def test_a_user_without_a_home_directory_is_told_to_name_one() -> None:
    done = run("init", env={"HOME": "", "CHOIR_HOME": "/proc/choir"})
    assert done.returncode == 1
    assert "/proc/choir" in done.stderr


def test_a_shell_completes_the_commands_and_asks_no_choir_that_is_not_there() -> None:
    def complete(words: str, number: int) -> list[str]:
        done = run(
            env={
                "_CHOIRCTL_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(number),
                "CHOIR_HOME": "/tmp/choir-is-not-here",
            }
        )
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.split()

    assert "session" in complete("choirctl se", 1)
    assert {"show", "cores", "events"} <= set(complete("choirctl session ", 2))
    assert complete("choirctl session show ", 3) == []


def test_zsh_and_fish_complete_too() -> None:
    words = {
        "_TYPER_COMPLETE_ARGS": "choirctl service in",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    for shell in ("zsh", "fish"):
        done = run(env={**words, "_CHOIRCTL_COMPLETE": f"complete_{shell}"})
        assert done.returncode == 0 and "install" in done.stdout, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_can_be_shown(shell: str) -> None:
    # as typer's own tests do: the name given counts, not whatever started this test
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = run("--show-completion", shell, env=named)
    assert done.returncode == 0 and "_CHOIRCTL_COMPLETE" in done.stdout
