"""Exclusive resources have one holder: leased together at a start, or not at all."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from choir_control.agents.sessions.store import SessionStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_sessions import leases
from tests.service.control.world import World, a_config, until

MAIL = {"smtp_host": "s", "smtp_port": 587, "imap_host": "i", "imap_port": 993, "secret": "key"}
OF_ONE = {"git_identity": "dev", "notion": "wiki", "email": "post"}
ALL_OF_MAIN = {
    f"{kind}:{name}": "main"
    for kind, name in {
        **OF_ONE,
        "workspace": "main",
        "dm": "console",
        "browser_context": "main",
    }.items()
}


def full_config(world: World) -> dict[str, Any]:
    """Return the world's configuration with a resource of every kind, all of them wanted by `main`."""
    config = a_config(world.home)
    config["git_identities"] = {
        name: {"name": name, "email": f"{name}@choir", "secret": "key"} for name in ("dev", "ops")
    }
    config["notion_integrations"] = {"wiki": {"secret": "key"}}
    config["email_accounts"] = {
        "post": {**MAIL, "sharing": "exclusive"},
        "notices": {**MAIL, "sharing": "shared"},
    }
    config["tts"] = {"t": {"model_id": "m", "endpoint": "http://127.0.0.1:1", "secret": "key"}}
    config["voice_profiles"] = {name: {"tts": "t", "voice_id": name} for name in ("calm", "lively")}
    config["models"]["deep"] = {"model": "deep", "endpoint": "http://127.0.0.1:1/v1"}
    config["agents"]["main"]["defaults"].update(OF_ONE, voice_profile="calm")
    config["agents"]["other"]["defaults"].update(workspace="spare")
    return config


@pytest.fixture
async def rich(stopped: World) -> World:
    """A ready choird whose agent `main` holds a resource of every kind."""
    stopped.settings.config_file.write_text(json.dumps(full_config(stopped)))
    await stopped.start()
    hand = await stopped.agent()
    await hand.begin()
    return stopped


def main_of(world: World) -> AgentHand:
    """Return the hand of the agent `main`."""
    return next(hand for hand in world.hands if hand.spec.agent_id == "main")


async def start_other(world: World, **asked: str) -> httpx2.Response:
    return await world.post("/v1/agents/other/start", json=asked)


async def test_a_start_leases_every_exclusive_resource(rich: World) -> None:
    assert await leases(rich) == ALL_OF_MAIN
    shown = (await rich.get("/v1/agents/main")).json()["bindings"]
    assert {kind: shown[kind] for kind in OF_ONE} == OF_ONE


async def test_a_start_that_wants_one_taken_resource_gets_none(
    rich: World, subtests: pytest.Subtests
) -> None:
    count = "SELECT count(*) FROM choir_control.sessions WHERE agent_id = 'other'"
    for kind, name in sorted(OF_ONE.items()):
        with subtests.test(kind):
            refused = await start_other(rich, **{kind: name})
            assert refused.status_code == 409
            said = refused.json()["detail"]
            assert f"{kind}:{name} is in use by agent main" in said
            assert "choirctl agent stop main" in said and f"--{kind.replace('_', '-')}" in said
            assert await leases(rich) == ALL_OF_MAIN
            assert await rich.database.fetchval(count) == 0


async def test_shared_resources_are_had_by_several(rich: World) -> None:
    started = await start_other(
        rich, email="notices", voice_profile="calm", llm="deep", git_identity="ops"
    )
    assert started.status_code == 200, started.text
    bound = started.json()["bindings"]
    assert (bound["email"], bound["voice_profile"], bound["llm"]) == ("notices", "calm", "deep")
    mine = {resource for resource, holder in (await leases(rich)).items() if holder == "other"}
    assert mine == {
        "workspace:spare",
        "dm:second",
        "browser_context:other",
        "git_identity:ops",
    }


async def test_a_crash_and_a_stop_free_everything(stopped: World) -> None:
    config = full_config(stopped)
    config["agents"]["main"]["restart"] = "never"
    stopped.settings.config_file.write_text(json.dumps(config))
    await stopped.start()
    rich = stopped
    await (await rich.agent()).begin()
    rich.runtime.die("main")
    await rich.until_status(main_of(rich).spec.session_id, "crashed")
    assert await leases(rich) == {}
    taken = await start_other(rich, **OF_ONE)
    assert taken.status_code == 200, taken.text
    stopping = asyncio.create_task(rich.post("/v1/agents/other/stop"))
    await rich.until_status(taken.json()["session_id"], "stopping")
    rich.runtime.die("other")
    await stopping
    assert "other" not in (await leases(rich)).values()


async def restart(world: World) -> AgentHand:
    """Restart `main`, whose agent obeys; return the new one."""
    hand, starts = world.hands[-1], len(world.runtime.specs)
    restarting = asyncio.create_task(world.post("/v1/agents/main/restart"))
    seen = 0
    while (signal := await hand.next_signal(seen)).body.kind != "shutdown":
        seen = signal.seq
    await hand.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)
    fresh = await world.agent(starts + 1)
    answer = await restarting
    assert answer.status_code == 200, answer.text
    return fresh


async def test_a_restart_keeps_what_a_start_named(rich: World) -> None:
    stopping = asyncio.create_task(rich.post("/v1/agents/main/stop"))
    hand = main_of(rich)
    await hand.next_signal()
    await hand.call("TERMINATE_SELF", b'{"reason":"asked"}')
    rich.runtime.die("main", 0)
    await stopping
    assert (await rich.post("/v1/agents/main/restart")).status_code == 409
    asked = {"workspace": "spare", "llm": "deep", "git_identity": "ops", "notion": ""}
    started = await rich.post("/v1/agents/main/start", json=asked)
    assert started.status_code == 200, started.text
    second = await rich.agent(2)
    await second.begin()
    third = await restart(rich)
    hello = await third.hello()
    assert third.spec.session_id != second.spec.session_id
    bound = hello.resource_bindings
    assert (bound.workspace, bound.llm, bound.git_identity) == ("spare", "deep", "ops")
    assert bound.notion is None and bound.email == "post"
    assert hello.config.model_name == "deep" and hello.config.notion is None


async def test_a_crashed_session_is_not_taken_up_with_other_resources(rich: World) -> None:
    rich.runtime.refuse_starts = True
    rich.runtime.die("main")
    await rich.until_status(main_of(rich).spec.session_id, "crashed")
    refused = await rich.post("/v1/agents/main/start", json={"workspace": "spare"})
    assert refused.status_code == 409
    assert "bound to workspace main" in refused.json()["detail"]


async def test_an_unfinished_session_goes_on_with_the_model_that_its_start_names(
    rich: World,
) -> None:
    session_id = main_of(rich).spec.session_id
    rich.runtime.refuse_starts = True
    rich.runtime.die("main")

    async def put_off() -> bool:
        return bool(
            await rich.database.fetchval(
                "SELECT blocked IS NOT NULL FROM choir_control.sessions WHERE session_id = $1",
                session_id,
            )
        )

    # no resume is under way that could start the agent beside the test
    await until(put_off)
    store = SessionStore(rich.database)
    assert await store.suspend(session_id, "asked", {})
    rich.runtime.refuse_starts = False
    unknown = await rich.post("/v1/agents/main/start", json={"llm": "shallow"})
    assert unknown.status_code == 400 and "'shallow'" in unknown.json()["detail"]
    started = await rich.post("/v1/agents/main/start", json={"llm": "deep"})
    assert started.status_code == 200, started.text
    hello = await rich.hand(rich.runtime.specs[-1]).hello()
    assert rich.runtime.specs[-1].session_id == session_id
    assert (hello.resource_bindings.llm, hello.config.model_name) == ("deep", "deep")


async def test_an_agent_may_have_the_secrets_of_what_it_is_bound_to(rich: World) -> None:
    answer = await main_of(rich).post("GET_SECRETS", b'{"resources":["key"]}')
    assert answer.status_code == 200 and answer.json()["secrets"]["key"]
