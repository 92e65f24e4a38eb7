"""The programs of an upgrade, such as the build of its images, end with it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PROGRAM = """
import asyncio, sys
from choir_local.upgrade.programs import run_command
asyncio.run(run_command("/bin/sh", "-c", "echo $$ > " + sys.argv[1] + "; exec sleep 600"))
"""
WITHIN_S = 60.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the death of a parent")
def test_a_program_ends_when_its_upgrade_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    upgrade = subprocess.Popen([sys.executable, "-c", PROGRAM, str(note)])
    try:
        pid = int(_wait_for_pid(note))
        assert _runs(pid)
        upgrade.send_signal(signal.SIGKILL)
        upgrade.wait(WITHIN_S)
        until = time.monotonic() + WITHIN_S
        while _runs(pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _runs(pid)
    finally:
        upgrade.kill()


def _runs(pid: int) -> bool:
    """Return whether a process works; where this process inherits orphans, a dead one stays as a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_for_pid(note: Path) -> str:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        if note.exists() and (pid := note.read_text().strip()):
            return pid
        time.sleep(0.05)
    raise AssertionError("the program was not started")
