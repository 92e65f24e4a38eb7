"""A running agent's model and voice are changed at once, through crashes, until a restart."""

import pytest

from choir_common.wire.rpc import ConfigRequest, ConfigResponse
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_resources import main_of, restart, rich
from tests.service.control.world import World

__all__ = ["rich"]


async def fetch(hand: AgentHand, version: int) -> ConfigResponse:
    body = ConfigRequest(current_config_version=version)
    return ConfigResponse.model_validate_json(await hand.call("FETCH_DYNAMIC_CONFIG", body))


async def newest(hand: AgentHand) -> int:
    """Return the version of the settings that a heartbeat tells of."""
    answer = await hand.post("HEARTBEAT", hand.heartbeat())
    return int(answer.json()["config_version_latest"])


async def test_models_and_voices_are_listed(rich: World) -> None:
    models = (await rich.get("/v1/models")).json()["items"]
    assert [(m["name"], m["kind"]) for m in models] == [
        ("deep", "llm"),
        ("default", "llm"),
        ("t", "tts"),
    ]
    voices = (await rich.get("/v1/voices")).json()["items"]
    assert [v["name"] for v in voices] == ["calm", "lively"]


async def test_a_model_is_set_while_the_agent_runs(rich: World) -> None:
    hand = main_of(rich)
    before = await newest(hand)
    assert (await fetch(hand, before)).config is None
    changed = await rich.put("/v1/agents/main/model", json={"llm": "deep"})
    assert changed.status_code == 200, changed.text
    assert changed.json()["changed"] == ["llm"] and changed.json()["llm"] == "deep"
    signal = (await hand.next_signal()).body
    assert signal.kind == "config_changed" and signal.config_version == before + 1
    assert await newest(hand) == before + 1
    answer = await fetch(hand, before)
    assert answer.config_version == before + 1
    assert answer.config is not None and answer.config.model_name == "deep"
    assert answer.config.voice is not None and answer.config.voice.profile.voice_id == "calm"

    await rich.put("/v1/agents/main/voice", json={"voice_profile": "lively"})
    both = await fetch(hand, answer.config_version)
    assert both.config is not None and both.config.voice is not None
    assert both.config.voice.profile.voice_id == "lively" and both.config.model_name == "deep"
    shown = (await rich.get("/v1/agents/main")).json()
    assert shown["model"] == "deep" and shown["bindings"]["voice_profile"] == "lively"


async def test_it_lasts_through_a_crash_and_not_through_a_restart(rich: World) -> None:
    await rich.put("/v1/agents/main/model", json={"llm": "deep"})
    rich.runtime.die("main")
    second = await rich.agent(2)
    hello = await second.hello()
    assert hello.config.model_name == "deep"
    assert (await fetch(second, hello.config_version)).config is None
    third = await restart(rich)
    hello = await third.hello()
    assert hello.config.model_name == "default"
    assert (await rich.get("/v1/agents/main/model")).json()["changed"] == []


async def test_going_back_to_the_start_is_a_change_too(rich: World) -> None:
    hand = main_of(rich)
    before = await newest(hand)
    for llm in ("deep", "default"):
        await rich.put("/v1/agents/main/model", json={"llm": llm})
    assert (await rich.get("/v1/agents/main/voice")).json()["changed"] == []
    answer = await fetch(hand, before + 1)
    assert answer.config_version == before + 2
    assert answer.config is not None and answer.config.model_name == "default"


NOT_TO_SET = (
    ("main/model", {"llm": "nope"}, 400),
    ("main/model", {}, 400),
    ("main/voice", {"voice_profile": "nope"}, 400),
    ("nobody/model", {"llm": "deep"}, 404),
    ("other/model", {"llm": "deep"}, 409),
)


async def test_what_cannot_be_set_is_said(rich: World, subtests: pytest.Subtests) -> None:
    for path, body, status in NOT_TO_SET:
        with subtests.test(path, body=body):
            answer = await rich.put(f"/v1/agents/{path}", json=body)
            assert answer.status_code == status, answer.text
            assert answer.json()["detail"]


async def test_other_sessions_keep_their_version(rich: World) -> None:
    other = await rich.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert other.status_code == 200
    hand = await rich.agent(2)
    await hand.begin()
    before = await newest(hand)
    await rich.put("/v1/agents/main/model", json={"llm": "deep"})
    assert await newest(hand) == before
