"""`/metrics` of choird on real servers: figures of the log, for operators only."""

from prometheus_client.parser import text_string_to_metric_families

from choir_common.http.client import make_client
from choir_common.wire.events import ModelOutput
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World


async def figures(world: World) -> dict[str, float]:
    """Return every sample by its name and labels."""
    answer = await world.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        " ".join(
            [sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))]
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_what_happens_is_counted_and_what_waits_is_shown(
    world: World, agent: AgentHand
) -> None:
    await world.say("a very private question", "1")
    waiting = await figures(world)
    assert waiting["choir_inbox_waiting"] == 1
    assert waiting["choir_sessions status=active"] == 1
    assert waiting["choir_service_info service=choir-control"] == 1

    message = await agent.next_message()
    await agent.take_up(message)
    await agent.reply("a very private answer", answers=message.inbox_id)
    await world.delivered(1)
    after = await figures(world)
    assert after["choir_inbox_waiting"] == 0
    assert after["choir_replies_total kind=answer"] == 1
    assert after["choir_events_appended_total type=user_msg"] == 1
    assert after["choir_heartbeats_total"] > waiting["choir_heartbeats_total"]
    assert after["choir_append_seconds_count"] == after["choir_heartbeats_total"]
    assert after["choir_http_requests_total method=POST route=/rpc/{verb} status=200"] >= 2
    text = (await world.get("/metrics")).text
    assert "private" not in text


async def test_tokens_are_counted_for_the_agent_and_the_model_that_used_them(
    world: World, agent: AgentHand
) -> None:
    await world.say("hello", "1")
    turn_id = await agent.take_up(await agent.next_message())
    output = ModelOutput(
        turn_id=turn_id, text="hello", model="gpt-5-mini", finish_reason="stop",
        prompt_tokens=300, completion_tokens=20,
    )  # fmt: skip
    agent.add(output)
    await agent.flush()
    found = await figures(world)
    labels = "agent=main kind={} model=gpt-5-mini"
    assert found[f"choir_model_tokens_total {labels.format('prompt')}"] == 300
    assert found[f"choir_model_tokens_total {labels.format('completion')}"] == 20


async def test_figures_are_for_operators_only(world: World, agent: AgentHand) -> None:
    async with make_client(f"unix://{agent.spec.socket_dir}/choir.sock") as client:
        assert (await client.get("/metrics")).status_code == 404
    async with make_client(world.tcp) as stranger:
        assert (await stranger.get("/metrics")).status_code == 401


async def test_a_token_of_their_own_opens_the_figures_and_nothing_else(stopped: World) -> None:
    token = "metrics-token-of-the-test"
    given = {**stopped.secrets.secrets, "metrics-token": token}
    stopped.secrets = stopped.secrets.model_copy(update={"secrets": given})
    await stopped.start()
    async with make_client(stopped.tcp, headers={"Authorization": f"Bearer {token}"}) as prometheus:
        assert (await prometheus.get("/metrics")).status_code == 200
        assert (await prometheus.get("/v1/status")).status_code == 401
    for wrong in ("Bearer x", f"Basic {token}", f"Bearer {token}x", ""):
        async with make_client(stopped.tcp, headers={"Authorization": wrong}) as stranger:
            assert (await stranger.get("/metrics")).status_code == 401
