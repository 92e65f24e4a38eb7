"""The programs of an upgrade, such as the build of its images, end with it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

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
        process = Path("/proc", _wait_for_pid(note))
        assert process.exists()
        upgrade.send_signal(signal.SIGKILL)
        upgrade.wait(WITHIN_S)
        until = time.monotonic() + WITHIN_S
        while process.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert not process.exists()
    finally:
        upgrade.kill()


def _wait_for_pid(note: Path) -> str:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        if note.exists() and (pid := note.read_text().strip()):
            return pid
        time.sleep(0.05)
    raise AssertionError("the program was not started")
