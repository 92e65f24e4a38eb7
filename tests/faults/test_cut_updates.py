"""Row R12: choird is killed in the middle of an update; after its next start the agent runs, old or new."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from choir_testing.rehearsal import run_rehearsal
from tests.service.control.conftest import (
    bus,
    database,
    dsn,
    nats_url,
    postgres,
    shared_nats_url,
    stopped,
    template,
)
from tests.service.control.test_process import spawn
from tests.service.control.world import World, until
from tests.support.crash_injection import KILLED
from tests.support.repositories import GitRepository

__all__ = [
    "bus",
    "database",
    "dsn",
    "nats_url",
    "postgres",
    "shared_nats_url",
    "stopped",
    "template",
]

ROOT = Path(__file__).parents[2]
UPDATE = """
import runpy, sys
sys.path.insert(0, {root!r})
from tests.support.crash_injection import exit_at_line
exit_at_line({line}, "rollout/update.py", ("update", "_start"))
runpy.run_module("choir_control", run_name="__main__")
"""
EVERY = os.environ.get("CHOIR_TEST_EVERY_CUT") == "1"
# else just before the stop, and between stop and start
CUTS = tuple(range(1, 24)) if EVERY else (8,)


@pytest.fixture
async def home(stopped: World) -> AsyncIterator[tuple[World, GitRepository]]:
    """A home whose agent `main` has a repository and is started by hand alone."""
    remote = GitRepository(stopped.home / "remotes/main.git")
    remote.commit({"identity/SOUL.md": "old"})
    async with run_rehearsal() as model:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["agents"]["main"].update(autostart=False, repo={"url": str(remote.path)})
        config["models"]["default"]["endpoint"] = model
        config["crash_detection_threshold_ms"] = 30_000
        path.write_text(json.dumps(config))
        yield stopped, remote


async def until_ready(world: World) -> None:
    async def ready() -> bool:
        try:
            return await world.is_ready()
        except (httpx2.HTTPError, OSError):
            return False

    await until(ready, 120)


async def running_image(world: World) -> str:
    """Return the image that the running agent said it has, once its newest epoch has begun."""
    said: list[str] = []

    async def running() -> bool:
        view = (await world.get("/v1/agents/main")).json()
        if view["state"] != "running":
            return False
        path = f"/v1/sessions/{view['session_id']}/events"
        events = (await world.get(path)).json()["items"]
        begun = [
            e["payload"] for e in events if e["type"] in ("session_started", "session_resumed")
        ]
        if not begun or begun[-1]["epoch"] != view["epoch"]:
            return False
        # one that was resumed does not say it in its log: control took the one on the shelf
        label = json.loads((world.home / "images/main/current.json").read_text())
        said.append(begun[-1].get("image_version") or label["version"]["image_version"])
        return True

    await until(running, 120)
    return said[-1]


async def operation(world: World, path: str) -> dict[str, Any]:
    begun = (await world.post(path)).json()["operation_id"]
    view: dict[str, Any] = {}

    async def over() -> bool:
        view.update((await world.get(f"/v1/operations/{begun}")).json())
        return bool(view["status"] != "running")

    await until(over, 120)
    return view


@pytest.mark.nightly  # tests/service/control/test_rollout.py updates, fails and goes back, too
@pytest.mark.parametrize("line", CUTS)
async def test_an_update_that_is_cut_leaves_the_agent_running_with_the_old_image_or_the_new_one(
    home: tuple[World, GitRepository], line: int
) -> None:
    world, remote = home
    program = ("-c", UPDATE.format(root=str(ROOT), line=line))
    first = await spawn(world, program=program)
    drained = asyncio.create_task(first.communicate())
    await until_ready(world)
    built = await operation(world, "/v1/agents/main/build")
    assert built["status"] == "succeeded", built
    old = built["result"]["agents"][0]["image_version"]
    assert (await world.post("/v1/agents/main/start", json={})).status_code == 200
    assert await running_image(world) == old
    remote.commit({"identity/SOUL.md": "new"})
    # the response is lost if the first cut comes before it is sent
    with contextlib.suppress(httpx2.RemoteProtocolError):
        await world.post("/v1/agents/main/update")
    await asyncio.wait_for(drained, 120)
    assert first.returncode == KILLED

    second = await spawn(world)
    drained = asyncio.create_task(second.communicate())
    try:
        await until_ready(world)
        interrupted = (await world.get("/v1/operations")).json()["items"][0]
        assert (interrupted["kind"], interrupted["status"]) == ("agent update", "interrupted")
        found = await running_image(world)
        again = await operation(world, "/v1/agents/main/update")
        assert again["status"] == "succeeded", again
        new = again["result"]["agents"][0]["image_version"]
        assert new != old and found in (old, new)
        assert await running_image(world) == new
    finally:
        second.terminate()
        await asyncio.wait_for(drained, 60)
