"""config.json and secrets.json through the command line, on a real Choir with a real agent."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from choir_common.wire.config_schema import config_reference, config_schema
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import run_choirctl
from tests.support.stack import EmbeddedStack, running_stack


def call(stack: EmbeddedStack, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_choirctl("--home", str(stack.home), *args, given=stdin)


def edit(stack: EmbeddedStack, **changes: Any) -> None:
    path = stack.home / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_change_is_loaded_compared_applied_and_reaches_the_agent(stack: EmbeddedStack) -> None:
    nothing = call(stack, "config", "diff")
    assert nothing.returncode == 5 and "config load" in nothing.stderr
    edit(stack, summary_timeout_ms=31_000)
    loaded = call(stack, "config", "load")
    assert loaded.stdout.split("  ") == [
        "~ config.json: summary_timeout_ms: 30000 -> 31000",
        "[hot-reload]",
        *([""] * 2),
        " → included in: choirctl config apply\n",
    ], loaded.stderr
    assert call(stack, "config", "diff").stdout == loaded.stdout
    applied = call(stack, "config", "apply", "--json")
    assert applied.returncode == 0, applied.stderr
    report = json.loads(applied.stdout)["report"]
    states = {row["name"]: (row["state"], row["version"]) for row in report["agents"]}
    assert states == {"main": ("applied", report["version"])}
    shown = json.loads(call(stack, "config", "show", "--json").stdout)
    assert shown["config"]["summary_timeout_ms"] == 31_000
    assert "main" in call(stack, "config", "report").stdout
    status = json.loads(stack.run("agent", "status", "main", "--json"))
    assert status["config_version"] == report["version"]
    assert stack.run("chat", "-m", "hello").strip()


def test_a_mistake_is_named_and_nothing_is_staged(stack: EmbeddedStack) -> None:
    before = (stack.home / "config.json").read_text()
    edit(stack, budgets={"max_core_jobs": "many"})
    refused = call(stack, "config", "load")
    assert refused.returncode == 2 and "budgets.max_core_jobs" in refused.stderr
    assert call(stack, "config", "apply").returncode == 5
    (stack.home / "config.json").write_text(before)


def test_a_secret_is_set_and_reaches_those_who_run(stack: EmbeddedStack) -> None:
    value = "value-that-nobody-sees"
    told = call(stack, "secret", "set", "spare-key", stdin=value)
    assert told.returncode == 0 and "secret apply" in told.stderr
    applied = call(stack, "secret", "apply")
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout == "+ spare-key\n" and "main applied" in applied.stderr
    names = [row["name"] for row in json.loads(call(stack, "secret", "list", "--json").stdout)]
    assert "spare-key" in names and "operator-token" in names
    assert call(stack, "secret", "delete", "spare-key").returncode == 0
    assert json.loads(call(stack, "secret", "apply", "--json").stdout)["removed"] == ["spare-key"]
    for log in (stack.home / "logs").glob("*.log"):
        assert value not in log.read_text(errors="replace")
    assert stack.run("chat", "-m", "hello").strip()


def test_the_schema_needs_no_running_choir(stack: EmbeddedStack) -> None:
    assert json.loads(call(stack, "config", "schema").stdout) == config_schema()
    assert call(stack, "config", "schema", "--markdown").stdout == config_reference()


def test_a_slip_in_the_secrets_locks_nobody_out_of_what_runs(stack: EmbeddedStack) -> None:
    path = stack.home / "secrets.json"
    whole = path.read_text()
    path.write_text(whole.replace("}", ""))
    try:
        by_http = call(stack, "--url", stack.url, "status")
        assert by_http.returncode == 0, by_http.stderr
        checks = json.loads(call(stack, "doctor", "--json").stdout)["checks"]
        found = {check["id"]: check for check in checks}
        assert found["secrets"]["outcome"] == "warn", found["secrets"]
        assert "keeps the values it has read" in found["secrets"]["detail"]
        assert found["model"]["outcome"] != "fail"
        refused = call(stack, "secret", "apply")
        assert refused.returncode != 0 and "secrets.json" in refused.stderr
    finally:
        path.write_text(whole)


@pytest.mark.nightly  # tests/unit/local/test_config_names.py has what memory is told
def test_the_embedding_model_of_config_json_is_the_one_that_memory_starts_with() -> None:
    port = free_port()
    section = {
        "model": "rehearsal-embedding",
        "dimensions": 384,
        "endpoint": f"http://127.0.0.1:{port}/v1",
    }

    def prepare(home: Path) -> None:
        config = json.loads((home / "config.json").read_text())
        (home / "config.json").write_text(json.dumps({**config, "embedding": section}))

    with running_stack(env={"CHOIR_REHEARSAL_PORT": str(port)}, prepare=prepare) as own:
        assert '"rehearsal-embedding"' in (own.home / "logs/memory.log").read_text()
        edit(own, embedding={**section, "model": "another"})
        loaded = call(own, "config", "load")
        assert "[restart-required]" in loaded.stdout
        assert "searches the old ones" in loaded.stdout
