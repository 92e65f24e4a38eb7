"""`choirctl secret`: a value goes from standard input into the file, and is seen nowhere else."""

import json
import os
import pty
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.support.preloaded_choirctl import CHOIRCTL, run_choirctl

LOCAL_MODES = 3
VALUE = "s3cret-of-the-test"


def run(home: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    done = run_choirctl("secret", *args, home=home, env={"HOME": "/nonexistent"}, given=stdin)
    assert VALUE not in done.stdout + done.stderr
    return done


def kept(home: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((home / "secrets.json").read_text())
    return found


def test_a_value_from_standard_input_is_kept_without_the_newline_of_echo(tmp_path: Path) -> None:
    assert run(tmp_path, "set", "key", stdin=f"{VALUE}\n").returncode == 0
    assert kept(tmp_path) == {"key": VALUE}
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_key_of_several_lines_is_kept_as_it_is(tmp_path: Path) -> None:
    key = f"-----BEGIN-----\n{VALUE}\n-----END-----\n"
    assert run(tmp_path, "set", "deploy-key", stdin=key).returncode == 0
    assert kept(tmp_path) == {"deploy-key": key}


def test_a_value_on_the_command_line_is_taken_with_a_warning(tmp_path: Path) -> None:
    done = run(tmp_path, "set", "key", VALUE)
    assert done.returncode == 0 and "history" in done.stderr
    assert kept(tmp_path) == {"key": VALUE}


def test_at_a_terminal_it_is_asked_for_and_not_shown(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [CHOIRCTL, "secret", "set", "key"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "CHOIR_HOME": str(tmp_path)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    while b"Value of key" not in said:
        said += os.read(ours, 1000)
    # what is typed before the echo is off is thrown away together with it
    while termios.tcgetattr(ours)[LOCAL_MODES] & termios.ECHO:
        assert process.poll() is None
        time.sleep(0.01)
    os.write(ours, f"{VALUE}\n".encode())
    assert process.wait(30) == 0
    try:
        while more := os.read(ours, 1000):
            said += more
    except OSError:
        pass
    os.close(ours)
    assert VALUE.encode() not in said
    assert kept(tmp_path) == {"key": VALUE}


@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (("set", "key"), ""),
        (("set", "key"), "\n"),
        (("set", "../key"), VALUE),
        (("set", "key"), "a\x00b"),
        (("set", ""), VALUE),
        (("set", "key"), "x" * 200_000),
    ],
)
def test_what_is_no_secret_is_refused_and_nothing_is_changed(
    tmp_path: Path, args: tuple[str, ...], stdin: str
) -> None:
    assert run(tmp_path, "set", "other", stdin=VALUE).returncode == 0
    done = run(tmp_path, *args, stdin=stdin)
    assert done.returncode == 2 and done.stderr.startswith("Error:")
    assert kept(tmp_path) == {"other": VALUE}


def test_the_list_names_what_is_set_what_is_missing_and_what_uses_it(tmp_path: Path) -> None:
    run(tmp_path, "set", "key", stdin=VALUE)
    run(tmp_path, "set", "unused", stdin=VALUE)
    config = {"models": {"m": {"secret": "key"}}, "embedding": {"secret": "absent"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = {row["name"]: row for row in json.loads(run(tmp_path, "list", "--json").stdout)}
    assert found == {
        "absent": {"name": "absent", "set": False, "used_by": ["embedding"]},
        "key": {"name": "key", "set": True, "used_by": ["models.m"]},
        "unused": {"name": "unused", "set": True, "used_by": []},
    }
    assert "not set" in run(tmp_path, "list").stdout


def test_what_is_deleted_is_gone_and_who_still_uses_it_is_said(tmp_path: Path) -> None:
    run(tmp_path, "set", "key", stdin=VALUE)
    (tmp_path / "config.json").write_text('{"models": {"m": {"secret": "key"}}}')
    done = run(tmp_path, "delete", "key")
    assert done.returncode == 0 and "models.m" in done.stderr
    assert kept(tmp_path) == {}
    assert run(tmp_path, "delete", "key").returncode == 3


def test_a_file_others_may_open_is_refused(tmp_path: Path) -> None:
    run(tmp_path, "set", "key", stdin=VALUE)
    (tmp_path / "secrets.json").chmod(0o644)
    for args in (("list",), ("set", "other"), ("delete", "key")):
        done = run(tmp_path, *args, stdin="value")
        assert done.returncode == 4 and "chmod 600" in " ".join(done.stderr.split())
    assert kept(tmp_path) == {"key": VALUE}


def test_apply_without_a_running_choir_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "apply")
    assert done.returncode == 6 and "choirctl up" in done.stderr
