"""choirctl on a real terminal, in a pipe and in a shell: widths, colours, Ctrl-C, questions, completion."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.service.choirctl.conftest import SharedStack
from tests.support.nightly import nightly_from
from tests.support.preloaded_choirctl import CHOIRCTL, run_choirctl
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack
from tests.support.terminal import run_on_terminal

ESCAPE = "\x1b["
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def stack(shared_stack: SharedStack) -> Iterator[EmbeddedStack]:
    running = shared_stack.get()
    running.run("chat", "-m", "hello")
    yield running
    # this is the last of the files that share it
    shared_stack.close()


@pytest.fixture(scope="module")
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


@pytest.fixture
def session(shell: ChoirctlRunner) -> str:
    return str(shell.data("session", "list")[0]["session_id"])


def run_in_bash(shell: ChoirctlRunner, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `choirctl` is the real one."""
    path = f"{CHOIRCTL.parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        env={**os.environ, **shell.env, "CHOIR_HOME": str(shell.home), "PATH": path},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


@pytest.mark.parametrize("columns", nightly_from(1, [40, 80, 200]))
def test_no_name_is_cut_however_narrow_the_terminal(
    shell: ChoirctlRunner, session: str, columns: int
) -> None:
    for words in (("session", "list"), ("agent", "list"), ("status", "-v")):
        with run_on_terminal(shell, *words, columns=columns, NO_COLOR="1") as typed:
            assert typed.end() == 0
        lines = [line.rstrip() for line in STYLE.sub("", typed.shown).splitlines()]
        assert any(session in line for line in lines), typed.shown
        # one line of prose is left to the terminal to wrap
        assert all(len(line) <= columns for line in lines if "State:" not in line), typed.shown
        assert (columns < 80) is (["SESSION", session] in [line.split() for line in lines])


def test_colours_are_shown_on_a_terminal_unless_they_are_not_wanted(shell: ChoirctlRunner) -> None:
    with run_on_terminal(shell, "agent", "list") as coloured:
        assert coloured.end() == 0
    with run_on_terminal(shell, "agent", "list", NO_COLOR="1") as plain:
        assert plain.end() == 0
    assert f"{ESCAPE}32m" in coloured.shown and f"{ESCAPE}32m" not in plain.shown
    assert ESCAPE not in shell.succeeds("agent", "list")


@pytest.mark.parametrize(
    "line",
    nightly_from(
        2,
        [
            "choirctl session events SESSION --follow | head -1",
            "choirctl status >&-",
            "choirctl session events SESSION --json | head -1",
            "choirctl config schema | head -1",
            "choirctl logs choird --no-follow | head -1",
        ],
    ),
)
def test_a_reader_that_goes_away_gets_no_traceback(
    shell: ChoirctlRunner, session: str, line: str
) -> None:
    # something more comes, so that who follows finds its reader gone
    wake = "sleep 3; choirctl agent inject main x 2>/dev/null" if "--follow" in line else "true"
    done = run_in_bash(shell, f"({wake}) & {line.replace('SESSION', session)}; wait")
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == (0 if ">&-" in line else 1)


def test_a_log_is_followed_until_its_session_is_over(shell: ChoirctlRunner, session: str) -> None:
    with run_on_terminal(
        shell, "session", "events", session, "--follow", real_program=True
    ) as typed:
        typed.until("session_started")
        shell.succeeds("chat", "-m", "are you followed?")
        typed.until("are you followed?")
        typed.interrupt()
        assert typed.end() == 130
    assert "Traceback" not in typed.shown


def test_sessions_are_followed_as_they_end_and_begin(shell: ChoirctlRunner, session: str) -> None:
    with run_on_terminal(
        shell, "session", "list", "--follow", NO_COLOR="1", columns=160, real_program=True
    ) as typed:
        typed.until(session)
        after = shell.data("agent", "restart", "main")["session_id"]
        typed.until(f"{session} main stopped")
        typed.until(f"{after} main active")
        typed.interrupt()
        assert typed.end() == 130


def test_what_is_emptied_has_to_be_named(stack: EmbeddedStack, shell: ChoirctlRunner) -> None:
    file = stack.home / "workspaces/main/keep.txt"
    file.write_text("x")
    with run_on_terminal(shell, "workspace", "reset", "main") as typed:
        typed.until("Type the workspace's name")
        typed.answer("other")
        assert typed.end() == 2
    assert file.exists() and "nothing was deleted" in typed.shown
    with run_on_terminal(shell, "workspace", "reset", "main", "--restart") as typed:
        typed.until("Type the workspace's name")
        typed.answer("main")
        assert typed.end() == 0
    assert not file.exists() and "started again" in typed.shown
    assert "entries deleted" in typed.shown


def test_nobody_is_asked_whether_to_erase_nothing(shell: ChoirctlRunner) -> None:
    with run_on_terminal(shell, "memory", "forget", "main", "--words", "xylophone") as typed:
        assert typed.end() == 0
    assert "contains nothing of it" in typed.shown and "permanently" not in typed.shown


@pytest.mark.nightly  # test_rollout.py follows a work from any point
def test_who_leaves_a_long_work_is_told_that_it_goes_on(
    stack: EmbeddedStack, shell: ChoirctlRunner, session: str
) -> None:
    asked = subprocess.Popen(
        [CHOIRCTL, "chat", "-m", "#delay=8000 think"],
        env={**os.environ, "CHOIR_HOME": str(stack.home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while "#delay=8000" not in shell.succeeds("session", "events", session):
            assert time.monotonic() < deadline
        with run_on_terminal(
            shell, "workspace", "reset", "main", "--yes", "--restart", real_program=True
        ) as typed:
            typed.until("stopping main")
            typed.interrupt()
            assert typed.end() == 130
    finally:
        asked.kill()
        asked.wait()
    assert "continues in the background" in typed.shown
    newest = shell.data("operation", "list")[0]["operation_id"]
    assert newest in typed.shown
    assert "succeeded" in shell.succeeds("operation", "show", newest, "--follow")


def test_a_choird_that_is_stuck_is_called_stuck(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    pid = stack.pid("control")
    os.kill(pid, signal.SIGSTOP)
    try:
        words = shell.fails(6, "agent", "list")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "did not answer in time" in words and "logs choird" in words


def test_a_database_is_replaced_only_when_that_is_confirmed(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    backup, other = str(stack.home / "b"), ChoirctlRunner(stack.home / "o")
    shell.succeeds("db", "backup", backup)
    other.succeeds("db", "restore", backup)
    assert "--yes" in other.fails(5, "db", "restore", backup)
    for answer, code in (("n", 2), ("y", 0)):
        with run_on_terminal(other, "db", "restore", backup) as typed:
            typed.until("Replace it")
            typed.answer(answer)
            assert typed.end() == code
    assert "Restored" in typed.shown
    assert "choirctl down" in shell.fails(5, "db", "restore", backup, "--yes")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("agent stat", "status"),
        ("session show ", "SESSION"),
        *(
            pytest.param(*it, marks=pytest.mark.nightly)
            for it in (
                ("agent status ", "main"),
                ("workspace reset ", "main"),
                ("logs ch", "choird"),
                ("agent start main --workspace ", "main"),
                ("model set main --llm ", "default"),
            )
        ),
    ],
)
def test_shells_complete_what_there_is(
    shell: ChoirctlRunner, session: str, words: str, expected: str
) -> None:
    expected = expected.replace("SESSION", session)
    typed = f"choirctl {words}"
    count = len(typed.split()) - (not typed.endswith(" "))
    words_of_bash = " ".join(f'"{word}"' for word in typed.split()) + (
        ' ""' if typed.endswith(" ") else ""
    )
    bash = run_in_bash(
        shell,
        'eval "$(choirctl --show-completion bash)"; '
        f"COMP_WORDS=({words_of_bash}); COMP_CWORD={count}; _choirctl_completion choirctl; "
        'echo "${COMPREPLY[@]}"',
    )
    assert expected in bash.stdout.split(), bash
    for name, more in (("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})):
        asking = ChoirctlRunner(
            shell.home,
            {"_CHOIRCTL_COMPLETE": f"complete_{name}", "_TYPER_COMPLETE_ARGS": typed, **more},
        )
        assert expected in asking.succeeds()


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_the_completion_script_of_another_shell_is_shown(shell: ChoirctlRunner, name: str) -> None:
    script = ChoirctlRunner(shell.home, {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert "_CHOIRCTL_COMPLETE" in script.succeeds("--show-completion", name)


def test_everything_that_is_data_is_json(shell: ChoirctlRunner, session: str) -> None:
    for words in (
        ("operation", "list"),
        ("approval", "list"),
        ("workspace", "list"),
        ("voice", "list"),
        ("session", "show", session),
        ("model", "get", "main"),
    ):
        done = run_choirctl(*words, "--json", home=shell.home, env=shell.env)
        json.loads(done.stdout + done.stderr)
