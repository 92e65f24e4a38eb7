"""A key that was given once by environment: kept if its user wants that, and never forgotten in silence."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.shell import ChoirctlRunner
from tests.support.terminal import run_on_terminal

NO_KEYS = dict.fromkeys(
    (
        *("OPENROUTER_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "",
)


@pytest.fixture
def shell() -> Iterator[ChoirctlRunner]:
    home = make_short_directory("ch-")
    # a server that nobody needs to reach: no message is sent
    model = {"OPENAI_API_KEY": "sk-once", "OPENAI_BASE_URL": f"http://127.0.0.1:{free_port()}/v1"}
    yield ChoirctlRunner(home, NO_KEYS | model | {"CHOIR_HTTP_PORT": str(free_port())})
    ChoirctlRunner(home, NO_KEYS).succeeds("down")
    shutil.rmtree(home, ignore_errors=True)


def read(shell: ChoirctlRunner, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((shell.home / name).read_text())
    return content


def test_a_key_of_the_environment_is_offered_to_keep_once_missed_at_a_start_without_it_and_asked_for(
    shell: ChoirctlRunner,
) -> None:
    question = "Store the key of gpt-5-mini"
    with run_on_terminal(shell, "up", "--detach", columns=200) as terminal:
        terminal.until(question)
        terminal.answer("n")
        terminal.until("runs in the background")
        assert terminal.end() == 0
    assert "openai-key" not in read(shell, "secrets.json")
    shell.succeeds("down")

    with run_on_terminal(shell, "up", "--detach", columns=200) as terminal:
        terminal.until("runs in the background")
        assert question not in terminal.shown
    started = shell.data("up", "--detach")
    # the scripted model does not run beside a real one
    assert "rehearsal" not in started["children"] and "gpt-5-mini" in started["model"]
    shell.succeeds("down")

    forgetful = ChoirctlRunner(shell.home, shell.env | NO_KEYS)
    refused = forgetful.fails(1, "up", "--detach")
    assert "The previous start used gpt-5-mini" in refused
    assert "choirctl secret set openai-key" in refused
    assert "openai-key" not in read(shell, "secrets.json")

    with run_on_terminal(forgetful, "up", "--detach", columns=200) as terminal:
        terminal.until("Enter to stop): ")  # the blank comes once nothing is echoed
        terminal.answer("sk-again")
        terminal.until("runs in the background")
        assert terminal.end() == 0
        assert "sk-again" not in terminal.shown and question not in terminal.shown
    assert read(shell, "secrets.json")["openai-key"] == "sk-again"
    # its key alone would lead to OpenAI's own address
    endpoint = read(shell, "config.json")["models"]["default"]["endpoint"]
    assert endpoint == shell.env["OPENAI_BASE_URL"]
