"""Every noun of choirctl on a whole Choir: what is listed, shown, chosen and decided, with its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.preloaded_choirctl import run_choirctl
from tests.support.stack import EmbeddedStack


def data(stack: EmbeddedStack, *args: str) -> Any:
    """Run a command for its JSON."""
    return json.loads(stack.run(*args, "--json"))


def code(stack: EmbeddedStack, *args: str, home: Path | None = None) -> tuple[int, str]:
    """Run a command; return its exit code and what it says on standard error."""
    done = run_choirctl(*args, home=home or stack.home, env=stack.env)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join(done.stderr.split())


def ask_for_a_setting(stack: EmbeddedStack, window: int) -> str:
    """Have the agent ask a human for another event window; return the request's id."""
    asked = json.dumps({"patch": {"event_window": window}, "reason": "to remember more"})
    stack.run("chat", "-m", f"/tool choir.propose.config_change {asked}")
    waiting = data(stack, "approval", "list")
    return str(
        next(a["approval_id"] for a in waiting if a["payload"]["patch"]["event_window"] == window)
    )


def test_a_request_is_listed_shown_whole_and_decided_once(stack: EmbeddedStack) -> None:
    first, second = ask_for_a_setting(stack, 80), ask_for_a_setting(stack, 90)
    assert first in stack.run("approval", "list")
    shown = stack.run("approval", "show", first)
    assert "config.json: event_window" in shown and "+80" in shown and "digest" in shown
    assert data(stack, "approval", "approve", first)["status"] == "approved"
    assert "rejected" in stack.run("approval", "reject", second)
    for verdict in ("approve", "reject"):
        assert code(stack, "approval", verdict, first)[0] == 5
    assert data(stack, "approval", "list") == []
    assert {first, second} <= {a["approval_id"] for a in data(stack, "approval", "list", "--all")}
    assert code(stack, "approval", "show", "appr_nothing")[0] == 3
    assert code(stack, "approval", "rollback", "appr_nothing")[0] == 3
    assert code(stack, "approval", "rollback", second)[0] == 5, "it was never applied"


def test_a_model_is_listed_shown_and_chosen(stack: EmbeddedStack) -> None:
    assert "default" in {model["name"] for model in data(stack, "model", "list")}
    assert data(stack, "model", "get", "main")["llm"] == "default"
    assert data(stack, "model", "set", "main", "--llm", "default")["llm"] == "default"
    exit_code, words = code(stack, "model", "set", "main", "--llm", "nobody")
    assert exit_code == 2 and "default" in words
    assert code(stack, "model", "get", "nobody")[0] == 3


def test_a_voice_is_listed_and_shown_and_one_that_is_not_there_is_refused(
    stack: EmbeddedStack,
) -> None:
    assert data(stack, "voice", "list") == []
    assert data(stack, "voice", "get", "main")["voice_profile"] is None
    assert code(stack, "voice", "set", "main", "calm")[0] == 2


@pytest.mark.nightly  # test_every_command.py restarts one
def test_an_agent_is_restarted_with_what_it_holds(stack: EmbeddedStack) -> None:
    before = data(stack, "agent", "status", "main")
    after = data(stack, "agent", "restart", "main")
    assert after["session_id"] != before["session_id"]
    assert after["bindings"] == before["bindings"]


def test_a_workspace_is_listed_and_emptied(stack: EmbeddedStack) -> None:
    (stack.home / "workspaces/main/notes.txt").write_text("x")
    (main,) = data(stack, "workspace", "list")
    assert (main["name"], main["agent_id"]) == ("main", "main")
    assert code(stack, "workspace", "reset", "main")[0] == 2, "nobody is there to be asked"
    done = data(stack, "workspace", "reset", "main", "--yes", "--restart")
    assert done["status"] == "succeeded"
    assert done["result"]["stopped"] == "main" and done["result"]["restarted"]
    assert not (stack.home / "workspaces/main/notes.txt").exists()


def test_help_in_an_admins_conversation_lists_what_admins_may(stack: EmbeddedStack) -> None:
    help_text = stack.run("chat", "-m", "/help")
    assert "/agent list" in help_text and "/workspace reset" in help_text


@pytest.mark.nightly  # test_config_and_secrets.py does it
def test_the_configuration_is_loaded_compared_and_applied(stack: EmbeddedStack) -> None:
    file = stack.home / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "event_window": 66}))
    loaded = data(stack, "config", "load")
    assert [change["path"] for change in loaded["changes"]] == ["event_window"]
    assert "event_window" in stack.run("config", "diff")
    assert data(stack, "config", "apply")["changes"]
    assert data(stack, "config", "show")["config"]["event_window"] == 66
    assert "main" in stack.run("config", "report")
    assert json.loads(stack.run("config", "schema"))["properties"]
    file.write_text("{")
    exit_code, words = code(stack, "config", "load")
    assert exit_code == 2 and "config.json" in words
    file.write_text(json.dumps(config))


def test_a_secret_is_kept_named_handed_on_and_deleted(stack: EmbeddedStack) -> None:
    value = "a-value-nobody-shall-see"
    assert value not in stack.run("secret", "set", "some-key", value)
    listed = stack.run("secret", "list")
    assert "some-key" in listed and value not in listed
    assert value not in stack.run("secret", "apply")
    stack.run("secret", "delete", "some-key", check=False)
    assert "some-key" not in stack.run("secret", "list")


@pytest.mark.parametrize("name", ["operator-token", "postgres-admin", "nats-key-browser"])
def test_choirs_own_secrets_are_not_deleted(stack: EmbeddedStack, name: str) -> None:
    before = (stack.home / "secrets.json").read_bytes()
    assert code(stack, "secret", "delete", name)[0] == 4
    assert (stack.home / "secrets.json").read_bytes() == before


def test_a_certificate_that_was_never_made_is_missing(stack: EmbeddedStack) -> None:
    assert code(stack, "tls")[0] == 3


def test_the_version_is_told_with_any_home(stack: EmbeddedStack) -> None:
    assert data(stack, "version")["version"]


def test_a_database_that_runs_is_migrated_already(stack: EmbeddedStack) -> None:
    exit_code, words = code(stack, "db", "migrate")
    assert exit_code in (0, 5), words
