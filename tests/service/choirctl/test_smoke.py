"""A whole Choir through the command line: up, chat, look, down; and what each mistake gets."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import CHOIRCTL, run_choirctl
from tests.support.stack import EmbeddedStack

STOP_WITHIN_S = 70


@pytest.fixture
def home() -> Iterator[Path]:
    # not below pytest's own long temporary path: sockets must fit
    place = make_short_directory("ch-")
    yield place
    shutil.rmtree(place, ignore_errors=True)


def call(*args: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run choirctl against `home`."""
    return run_choirctl(*args, home=home, env=env)


def call_program(*args: str, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run choirctl against `home` as a program of its own, as a shell does."""
    return subprocess.run(
        [CHOIRCTL, *args],
        env={**os.environ, "CHOIR_HOME": str(home), **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the paragraph on standard error as one line."""
    return " ".join(done.stderr.split())


def newest_session(stack: EmbeddedStack) -> str:
    return str(json.loads(stack.run("session", "list", "--json"))[0]["session_id"])


def test_chat_prints_the_answer_and_nothing_else_on_standard_output(stack: EmbeddedStack) -> None:
    done = call_program("chat", "-m", "hello", home=stack.home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Error" not in done.stderr


def test_chat_as_data_names_what_it_answers(stack: EmbeddedStack) -> None:
    answer = json.loads(stack.run("chat", "--agent", "main", "-m", "hello", "--json"))
    assert (answer["agent_id"], answer["kind"]) == ("main", "answer")
    assert answer["answers"]


def test_chat_over_http_takes_the_token_of_the_home(stack: EmbeddedStack) -> None:
    assert stack.run("chat", "--url", stack.url, "-m", "hello").strip()


def test_a_wrong_token_is_denied(stack: EmbeddedStack) -> None:
    done = call_program("status", "--url", stack.url, home=stack.home, CHOIR_TOKEN="wrong")
    assert done.returncode == 4
    assert "CHOIR_TOKEN" in said(done)


def test_status_shows_every_part_and_agent(stack: EmbeddedStack) -> None:
    status = json.loads(stack.run("status", "--json"))
    assert status["ready"]
    assert status["home"] == str(stack.home)
    assert [agent["agent_id"] for agent in status["agents"]] == ["main"]


def test_a_session_can_be_read_and_verified(stack: EmbeddedStack) -> None:
    stack.run("chat", "-m", "hello")
    session = newest_session(stack)
    lines = stack.run("session", "events", session, "--json").splitlines()
    types = [json.loads(line)["type"] for line in lines]
    assert types[0] == "session_started"
    assert {"user_msg", "model_output", "reply"} <= set(types)
    verified = json.loads(stack.run("session", "verify", session, "--json"))
    assert verified["ok"]
    assert verified["events"] >= len(lines)


def test_a_log_is_printed_for_people_and_as_data(stack: EmbeddedStack) -> None:
    session = newest_session(stack)
    text = stack.run("session", "events", session)
    assert "session_started" in text and "_id=" not in text and "\x1b" not in text
    shown = json.loads(stack.run("session", "show", session, "--json"))
    assert (shown["session_id"], shown["agent_id"]) == (session, "main")
    assert session in stack.run("session", "show", session)
    assert json.loads(stack.run("session", "cores", session, "--json")) == []


def test_status_shows_what_is_at_work_and_each_part_with_v(stack: EmbeddedStack) -> None:
    text, more = stack.run("status"), stack.run("status", "-v")
    assert "main" in text and "Choir is ready. Model:" in text and "\x1b" not in text
    assert "PART" not in text and "PART" in more and "postgres" in more


def test_an_agent_stops_and_starts(stack: EmbeddedStack) -> None:
    stack.run("agent", "stop", "main")
    assert json.loads(stack.run("agent", "status", "main", "--json"))["state"] == "stopped"
    refused = call("chat", "-m", "hello?", "--timeout", "5", home=stack.home)
    assert refused.returncode == 5
    stack.run("agent", "start", "main")
    again = call("agent", "start", "main", home=stack.home)
    assert again.returncode == 5
    assert stack.run("chat", "-m", "hello").strip()


def test_a_running_agent_can_be_told_and_its_session_summed_up(stack: EmbeddedStack) -> None:
    session = newest_session(stack)
    for args in (
        ("agent", "inject", "main", "be brief"),
        ("agent", "cancel", "main"),
        ("session", "compact", session),
    ):
        told = json.loads(stack.run(*args, "--json"))
        assert told["session_id"] == session and told["note"]
        done = call(*args, home=stack.home)
        assert done.returncode == 0 and done.stdout == "" and "main" in done.stderr


def test_a_job_that_does_not_run_is_refused_with_the_jobs_there_are(stack: EmbeddedStack) -> None:
    session = newest_session(stack)
    for args in (
        ("agent", "cancel", "main", "no-such-job"),
        ("session", "cancel", session, "no-such-job"),
        ("session", "compact", session, "--lane", "core:no-such-job"),
    ):
        done = call(*args, home=stack.home)
        assert done.returncode == 3, args
        assert "main has no job 'no-such-job': it runs no jobs now" in " ".join(said(done).split())


def test_a_command_in_a_chat_is_answered_by_what_it_did(stack: EmbeddedStack) -> None:
    assert "/inject <text>" in stack.run("chat", "-m", "/help")
    assert json.loads(stack.run("chat", "-m", "/jobs", "--json"))["command"] == "/jobs"
    assert "There is no command /frob" in stack.run("chat", "-m", "/frob")


def test_a_stopped_agent_cannot_be_told(stack: EmbeddedStack) -> None:
    session = newest_session(stack)
    stack.run("agent", "stop", "main")
    try:
        for args in (("agent", "inject", "main", "x"), ("agent", "cancel", "main")):
            done = call(*args, home=stack.home)
            assert done.returncode == 5 and "not running" in said(done)
        over = call("session", "compact", session, home=stack.home)
        assert over.returncode == 5 and "has ended" in said(over)
    finally:
        stack.run("agent", "start", "main")
    assert call("agent", "inject", "main", " ", home=stack.home).returncode == 2


@pytest.mark.parametrize(
    "args",
    [
        ("agent", "inject", "nobody", "x"),
        ("agent", "cancel", "nobody"),
        ("session", "compact", "nothing"),
        ("session", "show", "nothing"),
        ("session", "cores", "nothing"),
        ("session", "cancel", "nothing", "job"),
        ("agent", "status", "nobody"),
        ("agent", "start", "nobody"),
        ("chat", "--agent", "nobody", "-m", "hello"),
        ("chat", "--dm", "nobody", "-m", "hello"),
        ("session", "events", "nothing"),
        ("session", "verify", "nothing"),
    ],
    ids=" ".join,
)
def test_what_does_not_exist_is_missing(stack: EmbeddedStack, args: tuple[str, ...]) -> None:
    done = call(*args, home=stack.home)
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""


def test_a_second_up_finds_the_first(stack: EmbeddedStack) -> None:
    before = stack.children()["supervisor_pid"]
    done = call("up", "--detach", "--json", home=stack.home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["supervisor_pid"] == before
    refused = call("up", "--no-chat", home=stack.home)
    assert refused.returncode == 5
    assert "choirctl down" in said(refused)


def test_doctor_is_content_with_a_running_choir(stack: EmbeddedStack) -> None:
    found = json.loads(stack.run("doctor", "--json"))
    assert found["ok"]
    checks = {check["id"]: check["outcome"] for check in found["checks"]}
    assert checks["port"] == checks["secrets"] == checks["postgres"] == checks["running"] == "ok"
    assert checks["model"] == "warn", "it is the scripted one"


def test_doctor_fails_when_others_can_read_the_secrets(home: Path) -> None:
    call("init", home=home)
    (home / "secrets.json").chmod(0o644)
    done = call_program("doctor", "--json", home=home)
    assert done.returncode == 1
    checks = {check["id"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["secrets"]["outcome"] == "fail"
    assert "chmod 600" in checks["secrets"]["detail"]


def test_down_leaves_open_work_to_the_next_start_and_tells_who_still_waits(
    stack: EmbeddedStack,
) -> None:
    waiting = subprocess.Popen(
        [CHOIRCTL, "chat", "-m", "#delay=60000 think long"],
        env={**os.environ, "CHOIR_HOME": str(stack.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    session = newest_session(stack)
    deadline = time.monotonic() + 120
    while "think long" not in stack.run("session", "events", session):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    stack.run("down")
    _, words = waiting.communicate(timeout=300)
    told = " ".join(words.split())
    assert waiting.returncode == 1
    assert "stopped before main answered" in told and "started again (`choirctl up`)" in told
    stack.run("up", "--detach", "--port", str(stack.http_port))
    now = json.loads(stack.run("session", "list", "--json"))[0]
    assert (now["session_id"], now["epoch"]) == (session, 2)
    while "session_resumed" not in (events := stack.run("session", "events", session)):
        assert now["status"] in ("starting", "active") and time.monotonic() < deadline + 120
        time.sleep(0.5)
    assert "session_suspended" in events and "session_abandoned" not in events


@pytest.mark.nightly  # test_talk.py runs `up` in the foreground
def test_up_in_the_foreground_shows_one_screen_and_stops_at_a_signal(
    home: Path, tmp_path: Path
) -> None:
    log = tmp_path / "screen"
    with log.open("w") as stderr:
        running = subprocess.Popen(
            [CHOIRCTL, "up", "--port", str(free_port())],
            env={
                **os.environ,
                "CHOIR_HOME": str(home),
                "OPENROUTER_API_KEY": "",
                "OPENAI_API_KEY": "",
                "ANTHROPIC_API_KEY": "",
                "GEMINI_API_KEY": "",
                "GOOGLE_API_KEY": "",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        deadline = time.monotonic() + 90
        while "chat -m" not in log.read_text():
            assert running.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        assert call("status", home=home).returncode == 0
        assert stat.S_IMODE((home / "secrets.json").stat().st_mode) == 0o600
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(STOP_WITHIN_S)
    screen = " ".join(log.read_text().split())
    assert running.returncode == 0, screen
    for expected in (str(home), "rehearsal", "OPENROUTER_API_KEY", "chat -m", "has stopped"):
        assert expected in screen
    assert call("status", home=home).returncode == 6


def test_a_taken_port_is_named_and_nothing_keeps_running(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = call("up", "--detach", "--port", str(port), home=home)
    assert done.returncode == 1
    assert f"{port}" in said(done)
    assert "CHOIR_HTTP_PORT" in said(done)
    assert json.loads(call("down", "--json", home=home).stdout)["stopped"] is False


def test_a_malformed_config_is_named_before_anything_starts(home: Path) -> None:
    call("init", home=home)
    (home / "config.json").write_text('{"agents": {"main": 3}, "workspaces": {}}')
    done = call("up", "--detach", home=home)
    assert done.returncode == 1
    assert "config.json" in said(done)
    assert "line 1, field `agents.main`" in said(done)
    assert not (home / "data" / "postgres").exists()


def test_a_config_that_names_what_is_not_there_is_refused_and_all_is_stopped(home: Path) -> None:
    call("init", home=home)
    text = (home / "config.json").read_text().replace('"dm": "console"', '"dm": "phone"')
    (home / "config.json").write_text(text)
    done = call("up", "--detach", "--port", str(free_port()), home=home)
    assert done.returncode == 1
    assert "agents.main.defaults.dm" in said(done)
    assert json.loads(call("down", "--json", home=home).stdout)["stopped"] is False


def test_an_agent_is_made_and_deleted_while_choir_does_not_run(home: Path) -> None:
    call("init", home=home)
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(home / "socks/choird.sock"))
    made = call("agent", "init", "helper", home=home)
    assert made.returncode == 0 and "choirctl up --detach" in said(made)
    deleted = call("agent", "delete", "helper", "--yes", home=home)
    assert deleted.returncode == 0 and "agents.helper" in said(deleted)
    assert "config load" not in said(deleted)


def test_a_home_too_long_for_sockets_is_refused_and_not_made(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 100)
    done = call("up", "--detach", home=home)
    assert done.returncode == 1
    assert "CHOIR_HOME" in said(done)
    assert not home.exists()


def test_data_of_another_postgres_is_refused_untouched(home: Path) -> None:
    call("init", home=home)
    data = home / "data" / "postgres"
    data.mkdir(mode=0o700)
    (data / "PG_VERSION").write_text("12\n")
    done = call("up", "--detach", "--port", str(free_port()), home=home)
    assert done.returncode == 1
    assert "Postgres 12" in said(done)
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]
