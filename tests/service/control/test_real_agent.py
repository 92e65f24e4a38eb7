"""The real agent, as a confined child process, on a real control: killed, resumed, stopped."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator

import pytest

from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.world import World, until


@pytest.fixture
async def home(stopped: World) -> AsyncIterator[World]:
    """A ready choird whose agent `main` is a real process that rehearses."""
    async with run_rehearsal() as model:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        config["crash_detection_threshold_ms"] = 30_000
        path.write_text(json.dumps(config))
        await stopped.start(ProcessRuntime(stopped.home, os.environ))
        yield stopped
        await stopped.stop()


async def pid_of(world: World) -> int:
    found: list[int] = []

    async def running() -> bool:
        view = (await world.get("/v1/agents/main")).json()
        if view["state"] == "running" and view["pid"]:
            found.append(view["pid"])
        return bool(found)

    await until(running)
    return found[0]


async def test_it_answers_survives_a_kill_and_stops(home: World) -> None:
    first = await pid_of(home)
    await home.say("hello", "1")
    assert (await home.delivered(1))[0]

    os.kill(first, signal.SIGKILL)
    await home.say("are you back?", "2")
    await home.delivered(2)
    second = await pid_of(home)
    assert second != first
    view = (await home.get("/v1/agents/main")).json()
    assert view["epoch"] == 2
    assert (await home.verify(view["session_id"]))["ok"]

    stopped = await home.post("/v1/agents/main/stop")
    assert stopped.status_code == 200 and stopped.json()["state"] == "stopped"
    log = (await home.get(f"/v1/sessions/{view['session_id']}/events")).json()["items"]
    assert [event["type"] for event in log].count("reply") == 2
    assert log[-1]["type"] == "session_stopped"


async def test_it_works_over_https_with_the_certificate_of_its_boot_line(home: World) -> None:
    await home.stop()
    more = {"control_plane": "http", "tls": "on"}
    home.settings = home.settings.model_copy(update=more)
    await home.start(ProcessRuntime(home.home, os.environ))
    await pid_of(home)
    await home.say("hello over tls", "1")
    assert (await home.delivered(1))[0]
    stopped = await home.post("/v1/agents/main/stop")
    assert stopped.status_code == 200 and stopped.json()["state"] == "stopped"


@pytest.mark.nightly  # tests/faults/test_kill.py kills control in the middle of a turn
async def test_a_message_sent_while_control_restarts_is_answered_once(home: World) -> None:
    await pid_of(home)
    await home.say("first", "1")
    await home.delivered(1)
    await home.say("second", "2")
    await home.stop()
    await home.start(ProcessRuntime(home.home, os.environ))
    await home.delivered(2)
    await asyncio.sleep(0.5)
    # a stop may cut the receipt of the first, which is then sent again under its number
    answers = {message.outbox_id: message.answers for message in home.gateway.delivered}
    assert len(answers) == len({*answers.values()}) == 2
