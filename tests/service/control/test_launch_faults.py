"""A session keeps its image, and what keeps an agent from being started is never held against it."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from choir_control.agents.sessions.crash_handling import MAX_RESUMES
from tests.service.control.agent_hand import AgentHand
from tests.service.control.rolling import ended
from tests.service.control.test_sessions import stopped_in_a_turn
from tests.service.control.test_shut_down import end_when_told, patient
from tests.service.control.world import World, until
from tests.support.repositories import GitRepository

OTHER_KIND = {
    "image": {
        "kind": "docker",
        "place": "choir-agent-main:1",
        "version": {"agent_id": "main", "image_version": "1"},
    }
}


@pytest.fixture
def repository(stopped: World) -> GitRepository:
    """A repository of the agent `main` with an identity of its own."""
    made = GitRepository(stopped.home / "remotes/main.git")
    made.commit({"identity/SOUL.md": "I am new."})
    return made


async def configure(world: World, repository: GitRepository) -> None:
    """Give the agent a repository while it runs."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["agents"]["main"]["repo"] = {"url": str(repository.path)}
    path.write_text(json.dumps(config))
    for step in ("load", "apply"):
        answer = await world.post(f"/v1/config/{step}")
        assert answer.status_code == 200, answer.text


async def put_image(world: World, image: object) -> None:
    await world.database.execute(
        "UPDATE choir_control.sessions SET image = $1::jsonb WHERE agent_id = 'main'",
        json.dumps(image),
    )


async def state(world: World) -> str:
    return str((await world.get("/v1/agents/main")).json()["state"])


async def column(world: World, agent: AgentHand, name: str) -> object:
    return await world.database.fetchval(
        f"SELECT {name} FROM choir_control.sessions WHERE session_id = $1",
        agent.spec.session_id,
    )


async def test_a_repository_without_an_image_touches_nothing_that_runs(
    world: World, agent: AgentHand, repository: GitRepository
) -> None:
    await configure(world, repository)
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    assert (resumed.spec.session_id, resumed.spec.epoch) == (agent.spec.session_id, 2)
    await resumed.hello()
    reset = {"confirm": "main", "restart": True}
    for starts, way in enumerate(
        (
            world.post("/v1/agents/main/restart"),
            world.say("/restart", "r1"),
            world.post("/v1/workspaces/main/reset", json=reset),
        ),
        start=3,
    ):
        doing = asyncio.ensure_future(way)
        await world.until_status(resumed.spec.session_id, "stopping")
        await resumed.call("TERMINATE_SELF", b'{"reason":"asked"}')
        world.runtime.die("main", 0)
        await doing
        again = await world.agent(starts=starts)
        assert again.spec.session_id != resumed.spec.session_id and again.spec.image_version == ""
        await again.hello()
        resumed = again


async def test_only_an_update_changes_the_image_of_a_session(
    world: World, agent: AgentHand, repository: GitRepository
) -> None:
    await configure(world, repository)
    built = await ended(world, "/v1/agents/main/build")
    assert built["status"] == "succeeded", built
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    assert resumed.spec.image_version == ""
    await resumed.hello()
    updating = asyncio.create_task(ended(world, "/v1/agents/main/update"))
    await world.until_status(agent.spec.session_id, "stopping")
    await resumed.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)
    updated = await world.agent(starts=3)
    assert updated.spec.image_version == built["result"]["agents"][0]["image_version"]
    world.runtime.die("main")
    world.runtime.die("main")
    updating.cancel()
    await asyncio.gather(updating, return_exceptions=True)


@pytest.mark.nightly  # test_rollout.py goes back after a failed update
async def test_a_failed_update_goes_back_to_what_the_session_ran_with_not_to_the_last_build(
    world: World, agent: AgentHand, repository: GitRepository
) -> None:
    await configure(world, repository)
    built = await ended(world, "/v1/agents/main/build")
    assert built["status"] == "succeeded", built
    repository.commit({"identity/SOUL.md": "I am newer."})
    updating = asyncio.create_task(ended(world, "/v1/agents/main/update"))
    await world.until_status(agent.spec.session_id, "stopping")
    await agent.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)
    newer = await world.agent(starts=2)
    assert newer.spec.image_version

    async def another_image_was_started() -> bool:
        if world.runtime.specs[-1].image_version == newer.spec.image_version:
            world.runtime.die("main")
        return world.runtime.specs[-1].image_version != newer.spec.image_version

    await until(another_image_was_started)
    back = world.hand(world.runtime.specs[-1])
    assert back.spec.image_version == ""
    await back.hello()
    failed = await updating
    assert failed["status"] == "failed"
    assert "It runs with the default identity again" in failed["error"]


async def test_a_start_goes_on_with_open_work_in_the_image_of_before(
    world: World, agent: AgentHand, repository: GitRepository
) -> None:
    await stopped_in_a_turn(world, agent)
    await configure(world, repository)
    built = await ended(world, "/v1/agents/main/build")
    assert built["status"] == "succeeded", built
    assert (await world.post("/v1/agents/main/start", json={})).status_code == 200
    again = await world.agent(starts=2)
    assert (again.spec.session_id, again.spec.image_version) == (agent.spec.session_id, "")


async def test_a_new_start_of_choird_changes_no_image(
    stopped: World, repository: GitRepository
) -> None:
    stopped.settings = patient(stopped, 20)
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    await configure(stopped, repository)
    async with agent.beating():
        built = await ended(stopped, "/v1/agents/main/build")
    assert built["status"] == "succeeded", built
    changed = await agent.next_signal()
    ending = asyncio.create_task(end_when_told(stopped, agent, changed.seq))
    await stopped.stop()
    await ending
    await stopped.start()
    again = await stopped.agent()
    assert again.spec.session_id != agent.spec.session_id and again.spec.image_version == ""


@pytest.mark.nightly  # the other tests here keep a session's image in shorter ways
async def test_builds_after_a_restart_of_choird_spare_the_image_of_a_session_that_was_left_open(
    stopped: World, repository: GitRepository
) -> None:
    config = json.loads(stopped.settings.config_file.read_text())
    config["agents"]["main"]["autostart"] = False
    stopped.settings.config_file.write_text(json.dumps(config))
    await stopped.start()
    assert (await stopped.post("/v1/agents/main/start", json={})).status_code == 200
    agent = await stopped.agent()
    await agent.begin()
    await stopped_in_a_turn(stopped, agent)
    await configure(stopped, repository)
    built = await ended(stopped, "/v1/agents/main/build")
    image = json.loads((stopped.home / "images/main/current.json").read_text())
    await put_image(stopped, {"image": {key: image[key] for key in ("kind", "place", "version")}})
    await stopped.stop()
    await stopped.start()
    for soul in ("I am newer.", "I am the newest."):
        repository.commit({"identity/SOUL.md": soul})
        later = await ended(stopped, "/v1/agents/main/build")
        assert later["status"] == "succeeded", later
    answer = await stopped.post("/v1/agents/main/start", json={})
    assert answer.status_code == 200, answer.text
    again = await stopped.agent()
    assert again.spec.session_id == agent.spec.session_id
    assert again.spec.image_version == built["result"]["agents"][0]["image_version"]


async def test_a_restart_that_could_not_start_the_agent_stops_nothing(
    world: World, agent: AgentHand
) -> None:
    await put_image(world, OTHER_KIND)
    refused = await world.post("/v1/agents/main/restart")
    assert refused.status_code == 409 and "docker runtime" in refused.json()["detail"]
    assert "docker runtime" in ((await world.say("/restart", "r1")).note or "")
    assert await state(world) == "running" and len(world.runtime.specs) == 1


async def test_an_update_that_could_not_start_the_agent_stops_nothing(
    world: World, agent: AgentHand, repository: GitRepository
) -> None:
    await configure(world, repository)
    workspace = world.home / "workspaces/main"
    workspace.rmdir()
    workspace.write_text("in the way")
    async with agent.beating():
        refused = await ended(world, "/v1/agents/main/update")
    assert refused["status"] == "failed" and "Cannot create the workspace" in refused["error"]
    assert await state(world) == "running" and len(world.runtime.specs) == 1


async def test_a_fault_of_the_installation_puts_a_resume_off_and_is_told_once(
    world: World, agent: AgentHand
) -> None:
    await world.say("hello", "1")
    await agent.take_up(await agent.next_message())
    await put_image(world, OTHER_KIND)
    with capture_logs() as logged:
        world.runtime.die("main")
        [text] = await world.delivered(1)
        for _ in range(MAX_RESUMES + 2):
            await world.database.execute("UPDATE choir_control.sessions SET resume_at = now()")

            async def put_off() -> bool:
                return bool(await column(world, agent, "resume_at > clock_timestamp()"))

            await until(put_off)
    assert text.startswith("main cannot be started: The image of main was built for the docker")
    assert world.gateway.texts == [text]
    errors = [entry["event"] for entry in logged if entry["log_level"] == "error"]
    assert errors == ["agent cannot be started"], "the operator is told once, too"
    assert await column(world, agent, "resumes") == 1
    assert (await world.session(agent.spec.session_id))["status"] == "crashed"
    await put_image(world, {"image": None})
    await world.database.execute("UPDATE choir_control.sessions SET resume_at = now()")
    resumed = await world.agent(starts=2)
    hello = await resumed.hello()
    assert resumed.spec.session_id == agent.spec.session_id
    assert hello.tail_events[-1].type == "user_msg"
    assert await column(world, agent, "blocked") is None


async def test_an_agent_that_dies_before_it_introduces_itself_is_never_abandoned(
    world: World,
) -> None:
    hand = await world.agent()
    for starts in range(2, MAX_RESUMES + 5):
        world.runtime.die("main")
        await world.database.execute("UPDATE choir_control.sessions SET resume_at = now()")

        async def started(wanted: int = starts) -> bool:
            await world.database.execute(
                "UPDATE choir_control.sessions SET resume_at = now() WHERE resume_at > now()"
            )
            return len(world.runtime.specs) >= wanted

        await until(started)
    assert await column(world, hand, "resumes") == 0
    [text] = await world.delivered(1)
    assert text.startswith("main cannot be started: its process ended")


async def test_an_agent_that_has_run_since_may_die_at_a_start_again_before_anybody_is_told(
    world: World,
) -> None:
    hand = await world.agent()
    world.runtime.die("main")
    await (await world.agent(starts=2)).begin()
    world.runtime.die("main")
    await world.agent(starts=3)
    world.runtime.die("main")
    await (await world.agent(starts=4)).hello()
    assert await world.database.fetchval("SELECT count(*) FROM choir_control.outbox") == 0
    assert (await world.session(hand.spec.session_id))["status"] == "active"


async def test_crashes_of_control_never_count_against_a_session(stopped: World) -> None:
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    await stopped.say("think long", "1")
    await agent.take_up(await agent.next_message())
    for _ in range(MAX_RESUMES + 2):
        stopped.hurry.set()
        await stopped.stop()
        await stopped.start()
        resumed = await stopped.agent()
        assert resumed.spec.session_id == agent.spec.session_id
        await resumed.hello()
    assert stopped.gateway.texts == []
    assert await column(stopped, agent, "resumes") == 0


async def test_a_session_that_is_abandoned_while_nobody_waits_says_so_too(
    world: World, agent: AgentHand
) -> None:
    await world.database.execute("UPDATE choir_control.sessions SET idle_resumes = 8")
    world.runtime.die("main")
    await world.until_status(agent.spec.session_id, "abandoned")
    [text] = await world.delivered(1)
    assert "I have stopped trying" in text and "choirctl agent start main" in text
    events = (await world.get(f"/v1/sessions/{agent.spec.session_id}/events")).json()["items"]
    assert events[-1]["type"] == "session_abandoned"
    assert (await world.verify(agent.spec.session_id))["ok"]
