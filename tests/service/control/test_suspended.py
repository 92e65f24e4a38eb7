"""A session that was stopped with open work, and what changes before its agent is started again."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.images.builder import SessionImage
from choir_control.log.leases.authentication import create_lease_token
from tests.service.control.agent_hand import AgentHand
from tests.service.control.rolling import ended
from tests.service.control.test_sessions import stopped_in_a_turn
from tests.service.control.world import World, until
from tests.support.repositories import GitRepository

LATER = timedelta(seconds=10)


async def row_of(world: World, session_id: str) -> SessionRow:
    row = await SessionStore(world.database).get(session_id)
    assert row is not None
    return row


def edit(world: World, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit config.json."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


async def apply(world: World) -> None:
    for step in ("load", "apply"):
        answer = await world.post(f"/v1/config/{step}")
        assert answer.status_code == 200, answer.text


def rename_the_model(config: dict[str, Any]) -> None:
    config["models"]["better"] = config["models"].pop("default")
    for agent in config["agents"].values():
        agent["defaults"]["llm"] = "better"


async def test_a_resume_that_waited_for_a_stop_starts_nothing(
    world: World, agent: AgentHand
) -> None:
    await stopped_in_a_turn(world, agent)
    store, session_id = SessionStore(world.database), agent.spec.session_id
    # as the sweep had read it just before the stop
    crashed = replace(await row_of(world, session_id), status="crashed", end_reason=None)
    assert world.control is not None
    await world.control.services.sessions.starter.resume(crashed)
    assert len(world.runtime.specs) == 1
    assert (
        await store.begin_epoch(crashed, [], "console", create_lease_token(), SessionImage(None))
        is None
    )
    await store.delay_resume(session_id, -LATER)
    assert (
        await store.postpone_and_notify(
            session_id,
            "no image",
            "It cannot be started.",
            -LATER,
            world.control.services.configuration,
        )
        == []
    )
    assert await store.list_due_for_resume() == []
    assert (await world.session(session_id))["status"] == "suspended"


async def test_an_update_of_a_stopped_agent_changes_the_image_it_goes_on_with(
    world: World, agent: AgentHand
) -> None:
    await stopped_in_a_turn(world, agent)
    repository = GitRepository(world.home / "remotes/main.git")
    repository.commit({"identity/SOUL.md": "I am new."})
    edit(world, lambda c: c["agents"]["main"].update(repo={"url": str(repository.path)}))
    await apply(world)
    updated = await ended(world, "/v1/agents/main/update")
    [outcome] = updated["result"]["agents"]
    assert outcome["outcome"] == "built"
    assert (await world.post("/v1/agents/main/start", json={})).status_code == 200
    again = await world.agent(starts=2)
    assert again.spec.session_id == agent.spec.session_id
    assert again.spec.image_version == outcome["image_version"]


async def test_a_session_whose_model_left_the_configuration_gives_way_to_a_new_one(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await stopped_in_a_turn(world, agent)
    edit(world, rename_the_model)
    await apply(world)
    started = await world.post("/v1/agents/main/start", json={})
    assert started.status_code == 200, started.text
    again = await world.agent(starts=2)
    await again.begin()
    assert again.spec.session_id != agent.spec.session_id
    now = await row_of(world, again.spec.session_id)
    assert now.bindings.llm == "better" and now.continues == agent.spec.session_id
    [_, text] = await world.delivered(2)
    assert "main was stopped before it finished" in text
    assert world.gateway.delivered[1].answers == inbox_id


async def test_an_agent_whose_model_was_renamed_while_choir_was_down_starts_by_itself(
    world: World, agent: AgentHand
) -> None:
    await stopped_in_a_turn(world, agent)
    await world.stop()
    await world.database.execute(
        "UPDATE choir_control.sessions SET end_reason = 'Choir was shut down'"
    )
    edit(world, rename_the_model)
    await world.start()
    again = await world.agent()
    assert again.spec.session_id != agent.spec.session_id
    assert (await row_of(world, again.spec.session_id)).bindings.llm == "better"


async def test_a_dm_that_became_another_agents_while_choir_was_down_is_that_agents(
    world: World, agent: AgentHand
) -> None:
    def swap(config: dict[str, Any]) -> None:
        main, other = config["agents"]["main"], config["agents"]["other"]
        main["defaults"]["dm"], other["defaults"]["dm"] = "second", "console"
        other.update(autostart=True)
        other["defaults"]["workspace"] = "spare"

    await stopped_in_a_turn(world, agent)
    await world.stop()
    await world.database.execute(
        "UPDATE choir_control.sessions SET end_reason = 'Choir was shut down'"
    )
    edit(world, swap)
    await world.start()
    await world.agent(starts=2)
    started = {spec.agent_id: spec.session_id for spec in world.runtime.specs}
    dms = {name: (await row_of(world, it)).bindings.dm for name, it in started.items()}
    assert dms == {"main": "second", "other": "console"}

    async def told() -> bool:  # choird's restart may deliver the notice of the stop again before it
        return any("main was stopped before it finished" in it for it in world.gateway.texts)

    await until(told)


async def test_an_agent_that_leaves_the_configuration_leaves_no_open_work(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await stopped_in_a_turn(world, agent)
    edit(world, lambda config: config["agents"].pop("main"))
    await apply(world)
    await world.until_status(agent.spec.session_id, "stopped")
    [_, text] = await world.delivered(2)
    assert "main was stopped before it finished" in text
    assert world.gateway.delivered[1].answers == inbox_id


async def test_a_crashed_session_whose_agent_left_the_configuration_is_ended_at_the_start(
    world: World,
) -> None:
    await world.post("/v1/agents/never/start", json={"dm": "second"})
    agent = await world.agent(starts=2)
    await agent.begin()
    world.runtime.die("never")
    await world.until_status(agent.spec.session_id, "crashed")
    await world.stop()
    edit(world, lambda config: config["agents"].pop("never"))
    await world.start()
    assert (await world.session(agent.spec.session_id))["status"] == "stopped"


async def test_a_real_model_that_was_chosen_in_a_rehearsal_goes_on_after_a_crash(
    stopped: World,
) -> None:
    def rehearse(config: dict[str, Any]) -> None:
        config["models"]["real"] = dict(config["models"]["default"])
        config["models"]["default"]["provider"] = "rehearsal"

    edit(stopped, rehearse)
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    chosen = await stopped.put("/v1/agents/main/model", json={"llm": "real"})
    assert chosen.status_code == 200, chosen.text
    stopped.runtime.die("main")
    resumed = await stopped.agent(starts=2)
    assert (resumed.spec.session_id, resumed.spec.epoch) == (agent.spec.session_id, 2)
