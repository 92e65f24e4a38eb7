"""An agent that the fork server forked is confined like one with an interpreter of its own."""

import json
import os
from collections.abc import AsyncIterator

import psutil
import pytest

from choir_control.agents.runtimes.process.launch import AGENT
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.test_real_agent import pid_of
from tests.service.control.world import World
from tests.support.kernel_facts import describe


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put homes where agents get a view of their own, which is not so in /dev/shm."""
    monkeypatch.setattr("tests.support.home._memory_disk_is_usable", lambda: False)


@pytest.fixture
async def home(on_disk: None, stopped: World) -> AsyncIterator[World]:
    """A choird that is not started, with an agent that rehearses."""
    async with run_rehearsal() as model:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        path.write_text(json.dumps(config))
        yield stopped
        await stopped.stop()


async def test_a_fork_is_confined_as_an_agent_with_an_interpreter_of_its_own(home: World) -> None:
    described: list[tuple[dict[str, object], dict[str, object]]] = []
    for command in (AGENT, ("/usr/bin/env", *AGENT)):
        await home.start(ProcessRuntime(home.home, os.environ, command=command))
        agent = psutil.Process(await pid_of(home))
        assert ("choir_agent.fork_server" in agent.cmdline()) == (command == AGENT)
        await home.say("hello", command[0])
        await home.delivered(len(described) + 1)
        (launcher,) = agent.children()
        described.append((describe(agent.pid), describe(launcher.pid)))
        await home.stop()
    forked, executed = described
    assert forked == executed
    assert forked[0]["apart"] == [True, False, True]  # without the egress proxy, the host's network
