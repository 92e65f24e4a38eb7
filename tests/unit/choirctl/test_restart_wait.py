"""A command waits while control is restarted, and for nothing else."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choir_common.target import Target
from choir_local.home import Home
from choir_local.stack_state import ChildState, Phase, StackState, lock_home, write_state
from choirctl.api import restart_wait
from choirctl.api.restart_wait import wait_for_restart


def write(home: Home, control: Phase, stack: Phase = "ready") -> None:
    now = datetime.now(UTC)
    state = StackState(
        phase=stack,
        supervisor_pid=os.getpid(),
        started_at=now,
        home=str(home.root),
        children={"control": ChildState(phase=control, since=now, log="")},
    )
    write_state(home.state_file, state)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.make()
    return home


async def test_a_command_waits_until_control_is_back(home: Home) -> None:
    write(home, "restarting")
    with lock_home(home):
        waiting = asyncio.create_task(wait_for_restart(Target(home.root, None)))
        await asyncio.sleep(3 * restart_wait.POLL_S)
        write(home, "starting")
        await asyncio.sleep(3 * restart_wait.POLL_S)
        assert not waiting.done()
        write(home, "ready")
        await asyncio.wait_for(waiting, 60)


async def test_nothing_else_is_waited_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "restarting")
    # no stack runs in this directory
    await asyncio.wait_for(wait_for_restart(Target(home.root, None)), 5)
    with lock_home(home):
        # another machine
        await asyncio.wait_for(wait_for_restart(Target(home.root, "http://127.0.0.1:9")), 5)
        write(home, "starting", stack="starting")
        await asyncio.wait_for(wait_for_restart(Target(home.root, None)), 5)
        # a control that does not come back
        write(home, "restarting")
        monkeypatch.setattr(restart_wait, "LONGEST_S", 0.3)
        await asyncio.wait_for(wait_for_restart(Target(home.root, None)), 5)
