"""Hooks in a running choird: signed requests of programs become messages and core jobs of an agent."""

import json
from datetime import UTC, datetime

import pytest

from choir_common.wire.events import CoreStarted, CoreStopped
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until
from tests.support.hooks import (
    BODY,
    TOKEN,
    add_hooks,
    deliveries,
    hmac_base64,
    hmac_hex,
    send,
    standard_headers,
)

CONTENT = json.dumps(BODY).encode()


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird with hooks."""
    add_hooks(stopped)
    await stopped.start()
    return stopped


async def until_state(world: World, hook: str, *states: str) -> list[dict[str, object]]:
    """Wait until the deliveries of a hook, oldest first, have these states."""
    shown: list[dict[str, object]] = []

    async def reached() -> bool:
        nonlocal shown
        assert world.control is not None
        world.control.services.triggers.worker.wake()
        shown = list(reversed(await deliveries(world, hook)))
        return [item["state"] for item in shown] == list(states)

    try:
        await until(reached, within=20)
    except TimeoutError:
        raise AssertionError(f"{shown} are not {states}") from None
    return shown


async def test_a_signed_request_reaches_the_agent_as_text_from_outside_and_ends_with_its_answer(
    world: World, agent: AgentHand
) -> None:
    accepted = await send(world, "deploys")
    assert accepted.status_code == 202, accepted.text
    signal = await agent.next_message()
    assert accepted.json() == {"delivery_id": signal.inbox_id, "duplicate": False}
    assert (signal.text, signal.dm) == ("Deploy of ⟦shop⟧: ⟦ok⟧", "console")
    mark = signal.wake_up
    assert mark is not None and (mark.outside, mark.as_job) == ("webhook deploys", False)
    assert mark.summary.startswith("webhook deploys, at ")
    await until_state(world, "deploys", "running")
    await agent.take_up(signal)
    await agent.reply("good", answers=signal.inbox_id)
    (shown,) = await until_state(world, "deploys", "done")
    assert (shown["text"], shown["size"]) == (signal.text, len(CONTENT))
    assert await world.delivered(1) == ["good"]


async def test_each_scheme_accepts_its_own_signature(world: World) -> None:
    now = str(int(datetime.now(UTC).timestamp()))
    timed = now.encode() + b"." + CONTENT
    requests = (
        ("deploys", standard_headers(CONTENT)),
        (
            "github",
            {"X-Hub-Signature-256": f"sha256={hmac_hex(CONTENT)}", "X-GitHub-Delivery": "1"},
        ),
        ("plain", {"X-Signature-256": hmac_hex(CONTENT)}),
        ("timed", {"X-Signature": hmac_base64(timed), "X-Timestamp": now}),
        ("token", {"Authorization": f"Bearer {TOKEN}"}),
    )
    for hook, headers in requests:
        answer = await send(world, hook, headers=headers)
        assert answer.status_code == 202, (hook, answer.text)


async def test_a_repeated_request_is_stored_once(world: World, agent: AgentHand) -> None:
    github = {"X-Hub-Signature-256": f"sha256={hmac_hex(CONTENT)}", "X-GitHub-Delivery": "d-1"}
    plain = {"X-Signature-256": hmac_hex(CONTENT)}
    for hook, headers in (
        ("deploys", standard_headers(CONTENT, "msg_1")),
        ("github", github),
        ("plain", plain),
        ("token", {"Authorization": TOKEN, "Idempotency-Key": "k"}),
    ):
        first = (await send(world, hook, headers=headers)).json()
        second = await send(world, hook, headers=headers)
        assert (second.status_code, second.json()) == (202, {**first, "duplicate": True}), hook
        assert len(await deliveries(world, hook)) == 1
    # the sender's own ids tell equal bodies apart
    other = await send(world, "plain", headers={**plain, "Idempotency-Key": "second"})
    assert other.json()["duplicate"] is False


async def test_an_equal_body_without_an_id_counts_again_after_the_window(stopped: World) -> None:
    add_hooks(stopped, plain={"agent": "main", "secret": "hook-key", "signature": "hmac-sha256",
                              "repeat_window_s": 0})  # fmt: skip
    await stopped.start()
    for _ in range(2):
        answer = await send(stopped, "plain", headers={"X-Signature-256": hmac_hex(CONTENT)})
        assert answer.json()["duplicate"] is False
    assert len(await deliveries(stopped, "plain")) == 2


async def test_a_request_waits_for_an_agent_that_does_not_run(world: World) -> None:
    assert (await send(world, "asleep")).status_code == 202
    await until_state(world, "asleep", "waiting")
    await world.stop()
    await world.start()
    await until_state(world, "asleep", "waiting")
    started = await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert started.status_code < 300, started.text
    signal = await (await world.agent(starts=2)).next_message()
    assert (signal.text, signal.dm) == ("Deploy of ⟦shop⟧: ⟦ok⟧", "second")
    await until_state(world, "asleep", "running")


async def test_at_most_four_requests_of_a_hook_are_with_the_agent_at_a_time(
    world: World, agent: AgentHand
) -> None:
    for number in range(6):
        await send(world, "deploys", {"status": number})
    await until_state(world, "deploys", *["running"] * 4, *["waiting"] * 2)
    signal = await agent.next_message()
    await agent.take_up(signal)
    await agent.reply("good", answers=signal.inbox_id)
    await until_state(world, "deploys", "done", *["running"] * 4, "waiting")


async def test_a_core_job_of_a_hook_ends_with_the_job(world: World, agent: AgentHand) -> None:
    await send(world, "work")
    signal = await agent.next_message()
    assert signal.wake_up is not None and signal.wake_up.as_job
    await agent.take_up(signal)
    begun = CoreStarted(job_id="job_1", job_name="trigger", call_id="", dm="console",
                        task_spec=signal.text, answers=signal.inbox_id)  # fmt: skip
    agent.add(begun)
    await agent.flush()
    await until_state(world, "work", "running")
    stop = CoreStopped(job_id="job_1", job_name="trigger", outcome="error", reason="no disk")
    agent.add(stop, "core:trigger")
    await agent.flush()
    (shown,) = await until_state(world, "work", "failed")
    assert shown["detail"] == "error: no disk"


async def test_requests_above_the_rate_and_the_size_are_refused(world: World) -> None:
    large = json.dumps({"status": "x" * 2_000}).encode()
    refused = await send(world, "small", large)
    assert refused.status_code == 413 and "1 KiB" in refused.text
    assert (await send(world, "small")).status_code == 202
    limited = await send(world, "small")
    assert limited.status_code == 429
    assert 1 <= int(limited.headers["Retry-After"]) <= 30
    assert len(await deliveries(world, "small")) == 1


async def test_more_than_a_hundred_waiting_requests_are_refused_until_the_agent_reads_them(
    stopped: World,
) -> None:
    add_hooks(stopped, asleep={"agent": "other", "secret": "hook-key", "per_minute": 6_000})
    await stopped.start()
    statuses = [(await send(stopped, "asleep", {"n": n})).status_code for n in range(101)]
    assert statuses == [202] * 100 + [429]


async def test_hooks_and_their_refusals_are_listed(world: World) -> None:
    await send(world, "asleep")
    await send(world, "deploys", headers=standard_headers(CONTENT, secret="wrong"))
    views = {item["name"]: item for item in (await world.get("/v1/hooks")).json()["items"]}
    assert (views["asleep"]["waiting"], views["asleep"]["dm"]) == (1, "second")
    assert views["deploys"]["path"] == "/v1/hooks/deploys"
    assert (views["deploys"]["refused"], views["deploys"]["last_refusal"]) == (
        1,
        "The header webhook-signature does not match the request.",
    )
    assert views["unset"]["note"] == "the secret not-set is not set"


async def test_deliveries_are_listed_page_by_page(world: World) -> None:
    for number in range(3):
        await send(world, "whole", {"n": number})
    first = (await world.get("/v1/hooks/whole/deliveries?limit=2")).json()
    second = (await world.get(f"/v1/hooks/whole/deliveries?limit=2&cursor={first['next']}")).json()
    texts = [item["text"] for page in (first, second) for item in page["items"]]
    assert (texts, second["next"]) == ([f'⟦{{"n":{n}}}⟧' for n in (2, 1, 0)], None)
    assert (await world.get("/v1/hooks/none/deliveries")).status_code == 404


async def test_a_test_shows_the_text_and_sends_it_only_if_asked(
    world: World, agent: AgentHand
) -> None:
    request = {"body": '{"app": {}, "status": ["a", 1]}'}
    shown = (await world.post("/v1/hooks/deploys/test", json=request)).json()
    assert shown["text"].startswith('Deploy of : ⟦["a",1]⟧')
    assert (shown["missing"], shown["delivery_id"]) == (["app.name"], None)
    assert "Places of the template without a value: app.name" in shown["text"]
    assert await deliveries(world, "deploys") == []
    sent = await world.post("/v1/hooks/deploys/test", json={**request, "send": True})
    assert (await agent.next_message()).inbox_id == sent.json()["delivery_id"]
    assert (await world.post("/v1/hooks/none/test", json=request)).status_code == 404
    assert (await world.post("/v1/hooks/deploys/test", json={"body": "{"})).status_code == 400


async def test_a_removed_hook_takes_along_what_waits_and_its_name_is_unknown(world: World) -> None:
    await send(world, "asleep")
    await world.stop()
    file = world.settings.config_file
    config = json.loads(file.read_text())
    del config["hooks"]["asleep"]
    file.write_text(json.dumps(config))
    await world.start()
    assert world.control is not None
    database = world.control.services.database

    async def failed() -> bool:
        return bool(
            await database.fetchval("SELECT state = 'failed' FROM choir_control.trigger_deliveries")
        )

    await until(failed)
    assert (await send(world, "asleep")).status_code == 401
