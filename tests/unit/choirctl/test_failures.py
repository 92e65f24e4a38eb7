"""Errors as data, and the questions that the program itself answers."""

import json
from pathlib import Path

import pytest

from choir_common.errors import NotFound, StartupError
from choirctl.output.failures import report_error
from choirctl.start.config_file import read_config
from choirctl.start.state_directory import initial_config
from tests.support.preloaded_choirctl import run_choirctl


def test_an_error_is_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(NotFound("There is no \x1b[2J."), as_json=True) == 3
    said = capsys.readouterr()
    assert said.out == "" and "\x1b" not in said.err
    assert json.loads(said.err) == {
        "error": {"code": "not_found", "message": "There is no \x1b[2J.", "exit_code": 3}
    }


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("status",), "unavailable", 6),
        (("session", "show"), "usage", 2),
        (("session", "shwo"), "usage", 2),
        (("config", "set", "event_window", "5"), "not_found", 3),
    ],
)
def test_every_error_of_a_command_with_json_is_json(
    tmp_path: Path, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    done = run_choirctl("--home", str(tmp_path / "h"), *words, "--json")
    assert (done.returncode, done.stdout) == (exit_code, "")
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["exit_code"]) == (code, exit_code) and error["message"]


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    assert "Did you mean 'status'" in run_choirctl("statsu").stderr


def test_a_subcommand_without_its_group_is_answered_with_the_group() -> None:
    assert "Did you mean 'agent restart'?" in run_choirctl("restart", "main").stderr
    assert "'agent list'" in run_choirctl("list").stderr


def test_the_version_is_an_option_as_well() -> None:
    asked, command = run_choirctl("--version"), run_choirctl("version")
    assert asked.returncode == 0 and asked.stdout == command.stdout != ""


def test_an_unknown_setting_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    config = json.loads(initial_config(tmp_path))
    config["agents"]["main"]["defaults"]["lllm"] = "x"
    file.write_text(json.dumps({**config, "gatewayz": {}}))
    with pytest.raises(StartupError, match="gatewayz") as refused:
        read_config(file)
    said = str(refused.value)
    assert "did you mean `gateways`" in said and "did you mean `llm`" in said
    assert "Extra inputs" not in said
