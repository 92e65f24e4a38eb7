"""All agents are updated, one after the other: processes, and containers of a real engine."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from choir_common.http.client import make_client
from choir_common.http.response_parser import parse_events
from tests.service.control.rolling import (
    ended,
    state_of,
    until_state,
    with_containers,
    with_processes,
)
from tests.service.control.world import World, until
from tests.service.images.forge import ECHO, a_manifest
from tests.support.nightly import nightly_from
from tests.support.repositories import GitRepository

TOOL = {"tools/say.json": a_manifest("house.say"), "tools/say": ECHO % "hello"}
# what breaks one agent's build: a manifest no runtime takes, a program that does not compile
BROKEN = {
    "process": {"tools/bad.json": "{}"},
    "docker": {"Dockerfile": "FROM choir-base\nRUN echo does not compile && false\n"},
}
pytestmark = pytest.mark.timeout(900)
House = dict[str, GitRepository]


@pytest.fixture
def remotes(stopped: World) -> House:
    """A repository for all three agents, and one that they share."""
    names = ("main", "never", "other", "global")
    made = {name: GitRepository(stopped.home / f"remotes/{name}.git") for name in names}
    path = stopped.settings.config_file
    config = json.loads(path.read_text())
    for name, repository in made.items():
        repository.commit({"identity/SOUL.md": f"I am {name}.", **TOOL}, ("tools/say",))
        address = {"url": str(repository.path)}
        if name == "global":
            config["global_repo"] = address
        else:
            config["agents"][name]["repo"] = address
    config["dms"]["third"] = {"gateway": "bot", "user_id": "8"}
    config["agents"]["never"]["defaults"]["dm"] = "third"
    config["agents"]["main"]["autostart"] = False
    path.write_text(json.dumps(config))
    return made


@pytest.fixture(params=nightly_from(1, ["process", "docker"]))
async def runtime(
    request: pytest.FixtureRequest, stopped: World, remotes: House
) -> AsyncIterator[str]:
    """Start choird with one of the runtimes; return its name."""
    start = with_containers if request.param == "docker" else with_processes
    async with start(stopped):
        yield request.param


async def shown(world: World, path: str) -> dict[str, Any]:
    found: dict[str, Any] = (await world.get(path)).json()
    return found


async def steps_of(world: World, operation: str) -> list[str]:
    """Return what a work said it did, in order."""
    async with make_client(world.endpoint, timeout_s=30) as client:
        path = f"/v1/operations/{operation}/events"
        async with client.stream("GET", path, headers={"Last-Event-ID": "0"}) as answer:
            events = [event async for event in parse_events(answer.aiter_bytes())]
    return [json.loads(event.data)["text"] for event in events if event.event == "step"]


async def test_a_failing_build_leaves_the_running_and_the_stopped_alone(
    stopped: World, remotes: House, runtime: str
) -> None:
    world = stopped
    before = {}
    for name in ("main", "never"):
        built = await ended(world, f"/v1/agents/{name}/build")
        assert built["status"] == "succeeded", built
        started = await world.post(f"/v1/agents/{name}/start", json={})
        assert started.status_code == 200, started.text
        await until_state(world, name, "running")
        before[name] = (await shown(world, f"/v1/agents/{name}"))["session_id"]

    remotes["main"].commit({"identity/SOUL.md": "I am new.", **TOOL}, ("tools/say",))
    remotes["never"].commit({"identity/SOUL.md": "I am never.", **BROKEN[runtime]})
    view = await ended(world, "/v1/agents/update-all")

    # reported for each, and the whole is a failure
    assert view["status"] == "failed" and view["error"].startswith("never: "), view
    outcomes = {one["agent_id"]: one["outcome"] for one in view["result"]["agents"]}
    assert outcomes == {"main": "redeployed", "never": "failed", "other": "built"}
    # one after the other
    begun = [text.partition(" ")[0] for text in await steps_of(world, view["operation_id"])]
    assert list(dict.fromkeys(begun)) == ["main", "never", "other"] and begun == sorted(begun)
    # the one that runs goes on where it was; so does the one whose build failed, as if nothing was
    now = await shown(world, "/v1/agents/main")
    assert now["state"] == "running"
    session = await shown(world, f"/v1/sessions/{now['session_id']}")
    assert session["continues"] == before["main"]
    assert (await shown(world, f"/v1/sessions/{before['main']}/verify"))["ok"]
    failed = await shown(world, "/v1/agents/never")
    assert (failed["state"], failed["session_id"]) == ("running", before["never"])
    # the stopped one has its image and does not run
    assert await state_of(world, "other") == "stopped"
    assert (world.home / "images/other/current.json").exists()

    remotes["never"].commit({"identity/SOUL.md": "I am mended.", **TOOL}, ("tools/say",))
    mended = await ended(world, "/v1/agents/update-all")
    assert mended["status"] == "succeeded", mended
    outcomes = {one["agent_id"]: one["outcome"] for one in mended["result"]["agents"]}
    assert outcomes == {"main": "skipped", "never": "redeployed", "other": "skipped"}


async def test_a_container_that_holds_something_else_than_was_built_is_refused(
    stopped: World, remotes: House
) -> None:
    """GUARANTEES S17: the label and the id fit, the tools inside do not."""
    async with with_containers(stopped) as client:
        await ended(stopped, "/v1/agents/main/build")
        label = stopped.home / "images/main/current.json"
        current = json.loads(label.read_text())
        altered = client.containers.create(
            current["place"], ["sh", "-c", "echo '# more' >> /choir/tools/agent/say"], user="0"
        )
        try:
            altered.start()
            assert altered.wait()["StatusCode"] == 0
            config = {"Cmd": ["/opt/agent/bin/python", "-I", "-m", "choir_agent"]}
            current["place"] = altered.commit(conf=config).id
        finally:
            altered.remove(force=True)
        label.write_text(json.dumps(current))
        started = await stopped.post("/v1/agents/main/start", json={})
        assert started.status_code == 200, started.text

        async def refused() -> bool:
            view = await shown(stopped, "/v1/agents/main")
            assert view["state"] != "running"
            log = stopped.home / "logs/main.log"
            said = log.read_text() if log.exists() else ""
            return "does not run the image built for it: tool_manifest_hash differ" in said

        await until(refused, 60)
