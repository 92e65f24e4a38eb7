"""Building and updating agents through `/v1`: real repositories, a real choird, real agents."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from choir_common.http.client import make_client
from choir_common.http.response_parser import parse_events
from tests.service.control.rolling import ended, state_of, until_state, with_processes
from tests.service.control.world import World, until
from tests.service.images.forge import ECHO, a_manifest, a_skill
from tests.support.repositories import GitRepository

SOUL = {"identity/SOUL.md": "I am new."}


@pytest.fixture
def remotes(stopped: World) -> dict[str, GitRepository]:
    """The global repository and those of `main` and `never`; `other` has none of its own."""
    made = {name: GitRepository(stopped.home / f"remotes/{name}.git") for name in ("main", "never")}
    made["main"].commit(
        {
            **SOUL,
            "tools/say.json": a_manifest("house.say"),
            "tools/say": ECHO % "hello",
            "skills/tidy.json": a_skill("tidy"),
        },
        ("tools/say",),
    )
    made["never"].commit(SOUL)
    path = stopped.settings.config_file
    config = json.loads(path.read_text())
    for name, repository in made.items():
        config["agents"][name]["repo"] = {"url": str(repository.path)}
    path.write_text(json.dumps(config))
    return made


@pytest.fixture
async def real(stopped: World, remotes: dict[str, GitRepository]) -> AsyncIterator[World]:
    """A ready choird that runs agents as processes."""
    async with with_processes(stopped):
        yield stopped


async def first_events(world: World, session_id: str) -> list[dict[str, Any]]:
    """Wait for the first events, which come a moment after the agent has introduced itself."""
    events: list[dict[str, Any]] = []

    async def there() -> bool:
        events.extend((await world.get(f"/v1/sessions/{session_id}/events")).json()["items"])
        return bool(events)

    await until(there, 60)
    return events


async def test_an_agent_is_built_started_updated_and_left_alone_when_nothing_changed(
    real: World, remotes: dict[str, GitRepository]
) -> None:
    refused = await real.post("/v1/agents/main/start", json={})
    assert refused.status_code == 409
    assert "choirctl agent build main" in refused.json()["detail"]

    built = await ended(real, "/v1/agents/main/build")
    assert built["status"] == "succeeded", built
    [one] = built["result"]["agents"]
    assert one["outcome"] == "built"
    assert one["agent_repo_commit"] == remotes["main"].git("rev-parse", "main")
    assert await state_of(real, "main") == "stopped"

    assert (await real.post("/v1/agents/main/start", json={})).status_code == 200
    await until_state(real, "main", "running")
    view = (await real.get("/v1/agents/main")).json()
    events = await first_events(real, view["session_id"])
    assert events[0]["payload"]["image_version"] == one["image_version"]

    again = await ended(real, "/v1/agents/main/update")
    assert again["result"]["agents"][0]["outcome"] == "skipped"

    remotes["main"].commit({"identity/SOUL.md": "I am newer."})
    newer = await ended(real, "/v1/agents/main/update")
    assert newer["status"] == "succeeded", newer
    [two] = newer["result"]["agents"]
    assert two["outcome"] == "redeployed" and two["image_version"] != one["image_version"]
    after = (await real.get("/v1/agents/main")).json()
    assert after["state"] == "running" and after["session_id"] != view["session_id"]
    session = (await real.get(f"/v1/sessions/{after['session_id']}")).json()
    assert session["continues"] == view["session_id"]


async def test_an_image_that_does_not_come_up_gives_way_to_the_one_before(
    real: World, remotes: dict[str, GitRepository]
) -> None:
    first = await ended(real, "/v1/agents/main/build")
    await real.post("/v1/agents/main/start", json={})
    await until_state(real, "main", "running")
    # a skill that control cannot judge and the agent refuses: its tool does not exist
    broken = a_skill("broken", tool="no.such")
    remotes["main"].commit({**SOUL, "skills/broken.json": broken})
    view = await ended(real, "/v1/agents/main/update")
    assert view["status"] == "failed" and "again" in view["error"], view
    await until_state(real, "main", "running")
    current = json.loads((real.home / "images/main/current.json").read_text())
    assert current["version"]["image_version"] == first["result"]["agents"][0]["image_version"]


async def test_a_work_is_followed_from_any_point_to_its_end(
    stopped: World, remotes: dict[str, GitRepository]
) -> None:
    await stopped.start()
    begun = (await stopped.post("/v1/agents/main/build")).json()["operation_id"]

    async def heard(after: str) -> list[Any]:
        async with make_client(stopped.endpoint, timeout_s=30) as client:
            headers = {"Last-Event-ID": after}
            path = f"/v1/operations/{begun}/events"
            async with client.stream("GET", path, headers=headers) as answer:
                return [event async for event in parse_events(answer.aiter_bytes())]

    async with asyncio.timeout(90):
        everything = await heard("0")
        rest = await heard("3")
    assert [event.id for event in rest] == [event.id for event in everything][3:]
    assert everything[-1].event == "end"
    assert json.loads(everything[-1].data)["status"] == "succeeded"
    assert "fetching" in everything[0].data
    listed = (await stopped.get("/v1/operations")).json()["items"]
    assert [view["operation_id"] for view in listed] == [begun]


async def test_unknown_agents_works_and_agents_without_a_repository_are_named(
    stopped: World, remotes: dict[str, GitRepository]
) -> None:
    await stopped.start()
    assert (await stopped.post("/v1/agents/nobody/build")).status_code == 404
    assert (await stopped.get("/v1/operations/op_none")).status_code == 404
    assert (await stopped.get("/v1/operations/op_none/events")).status_code == 404
    assert (await stopped.get("/v1/operations?limit=0")).status_code == 400
    view = await ended(stopped, "/v1/agents/other/build")
    assert view["status"] == "failed" and "agents.other.repo.url" in view["error"]


async def test_a_work_cut_off_by_the_end_of_choird_is_interrupted_and_nothing_is_half_done(
    stopped: World, remotes: dict[str, GitRepository], tmp_path: Path
) -> None:
    await stopped.start()
    # an address that accepts and never answers
    server = await asyncio.start_server(lambda _r, _w: asyncio.sleep(60), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await stopped.stop()
    config = json.loads(stopped.settings.config_file.read_text())
    config["agents"]["main"]["repo"]["url"] = f"https://127.0.0.1:{port}/x.git"
    stopped.settings.config_file.write_text(json.dumps(config))
    await stopped.start()
    begun = (await stopped.post("/v1/agents/main/build")).json()["operation_id"]
    second = await stopped.post("/v1/agents/main/update")
    assert second.status_code == 409 and begun in second.json()["detail"]
    await stopped.stop()
    await stopped.start()
    view = (await stopped.get(f"/v1/operations/{begun}")).json()
    assert view["status"] == "interrupted" and "again" in view["error"]
    assert not (stopped.home / "images/main/current.json").exists()
    server.close()
