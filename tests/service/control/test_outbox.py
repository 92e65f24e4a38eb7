"""What is durable is said: in order, one at a time per DM, and labelled when it may be a repetition."""

import asyncio

from choir_common.clients.control import NatsControlClient
from choir_common.errors import InvalidRequest, OutcomeUnknown, Unavailable
from choir_common.wire.events import Reply
from choir_common.wire.messages import DeliveryProgress
from choir_local.nats import EmbeddedNats
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, a_message, until


async def sent(world: World, count: int) -> list[str]:
    """Wait until `count` deliveries were tried, repeated ones included; return their texts."""

    async def there() -> bool:
        return len(world.gateway.texts) >= count

    await until(there)
    return world.gateway.texts


async def test_replies_are_delivered_in_order_and_one_at_a_time(
    world: World, agent: AgentHand
) -> None:
    world.gateway.delay_s = 0.02
    for number in range(15):
        agent.say(f"{number}")
        if number % 4 == 0:
            await agent.flush()
    await agent.flush()
    assert await sent(world, 15) == [f"{number}" for number in range(15)]
    assert world.gateway.most_in_flight == 1


async def test_what_was_surely_not_sent_is_tried_again_without_a_label(
    world: World, agent: AgentHand
) -> None:
    world.gateway.fail_with = [Unavailable("away"), Unavailable("away")]
    await agent.reply("hello")
    await sent(world, 3)
    assert world.gateway.texts == ["hello"] * 3
    assert not any(message.maybe_repeated for message in world.gateway.delivered)
    await until_finished(world, "delivered")


async def test_what_cannot_be_delivered_is_closed_and_the_next_one_goes_out(
    world: World, agent: AgentHand
) -> None:
    world.gateway.fail_with = [InvalidRequest("no such chat")]
    await agent.reply("lost")
    await agent.reply("found")
    assert await sent(world, 2) == ["lost", "found"]

    async def closed() -> bool:
        rows = await world.database.fetch(
            "SELECT text, status, detail FROM choir_control.outbox ORDER BY outbox_id"
        )
        return [(r["text"], r["status"]) for r in rows] == [
            ("lost", "undeliverable"),
            ("found", "delivered"),
        ]

    await until(closed)


async def test_a_telegram_delivery_of_unknown_outcome_is_labelled_when_repeated(
    world: World,
) -> None:
    agent = await telegram_agent(world)
    world.gateway.fail_with = [OutcomeUnknown("cut off")]
    agent.add(Reply(turn_id=None, dm="second", text="maybe", kind="notice"))
    await agent.flush()
    await sent(world, 2)
    assert [message.maybe_repeated for message in world.gateway.delivered] == [False, True]


async def test_a_message_that_an_erasure_cancelled_is_not_tried_again(world: World) -> None:
    agent = await telegram_agent(world)
    world.gateway.fail_with = [Unavailable("away")]
    agent.add(Reply(turn_id=None, dm="second", text="erased", kind="notice"))
    await agent.flush()

    async def cancelled() -> bool:
        sql = """UPDATE choir_control.outbox SET status = 'undeliverable', finished_at = now()
            WHERE text = 'erased' AND status = 'waiting' AND attempts > 0 RETURNING 1"""
        return await world.database.fetchval(sql) is not None

    await until(cancelled)
    agent.add(Reply(turn_id=None, dm="second", text="next", kind="notice"))
    await agent.flush()
    assert await sent(world, 2) == ["erased", "next"]


async def test_an_answer_names_the_message_it_answers_once_others_have_come(world: World) -> None:
    agent = await telegram_agent(world)
    control = NatsControlClient(world.bus)
    asked = [
        (
            await control.accept(a_message(f"{n}", f"u{n}", "second", message_id=f"{70 + n}"))
        ).inbox_id
        for n in range(3)
    ]
    # a correction of the last one is no later message
    edit = a_message("2, I mean", "u9", "second", edits="72")
    asked.append((await control.accept(edit)).inbox_id)
    for inbox_id in (asked[0], asked[2], asked[3], None):
        agent.add(Reply(turn_id=None, dm="second", text="so", kind="answer", answers=inbox_id))
    await agent.flush()
    await sent(world, 4)
    assert [message.reply_to for message in world.gateway.delivered] == ["70", None, None, None]


async def test_a_telegram_delivery_in_flight_when_control_died_is_labelled(world: World) -> None:
    agent = await telegram_agent(world)
    world.gateway.delay_s = 3
    agent.add(Reply(turn_id=None, dm="second", text="in flight", kind="notice"))
    await agent.flush()

    async def sending() -> bool:
        return await status_of(world, "in flight") == "sending"

    await until(sending)
    await world.stop()
    world.gateway.delay_s = 0
    await world.start()

    async def repeated() -> bool:
        return any(message.maybe_repeated for message in world.gateway.delivered)

    await until(repeated)
    await until_finished(world, "delivered")


async def test_a_delivery_is_repeated_at_once_when_the_gateway_was_restarted(world: World) -> None:
    agent = await telegram_agent(world)
    await NatsControlClient(world.bus, "gw_1").channels()
    # longer than any delivery may take: only the restart can end this one
    world.gateway.delay_s = 600
    agent.add(Reply(turn_id=None, dm="second", text="cut off", kind="notice"))
    await agent.flush()

    async def delivering() -> bool:
        return world.gateway.in_flight.get("second", 0) == 1

    await until(delivering)
    world.gateway.delay_s = 0
    await NatsControlClient(world.bus, "gw_1").channels()
    await NatsControlClient(world.bus, "gw_2").channels()
    async with asyncio.timeout(50):  # a delivery's own deadline is 60 s
        await sent(world, 1)
    assert [message.maybe_repeated for message in world.gateway.delivered] == [True]
    await until_finished(world, "delivered")


async def test_a_delivery_is_repeated_as_soon_as_a_bus_that_broke_meanwhile_is_back(
    world: World, nats: EmbeddedNats
) -> None:
    agent = await telegram_agent(world)
    # longer than any delivery may take: only the broken connection can end this one
    world.gateway.delay_s = 600
    agent.add(Reply(turn_id=None, dm="second", text="cut off", kind="notice"))
    await agent.flush()

    async def delivering() -> bool:
        return world.gateway.in_flight.get("second", 0) == 1

    await until(delivering)
    world.gateway.delay_s = 0
    await nats.stop()
    await nats.start()
    async with asyncio.timeout(50):  # a delivery's own deadline is 60 s
        await sent(world, 1)
    assert [message.maybe_repeated for message in world.gateway.delivered] == [True]
    await until_finished(world, "delivered")


async def test_a_repeated_delivery_says_how_far_the_message_is(world: World) -> None:
    agent = await telegram_agent(world)
    world.gateway.delay_s, world.gateway.fail_with = 1, [OutcomeUnknown("cut off")]
    agent.add(Reply(turn_id=None, dm="second", text="long", kind="notice"))
    await agent.flush()

    async def sending() -> bool:
        return await status_of(world, "long") == "sending"

    await until(sending)
    outbox_id = await world.database.fetchval("SELECT max(outbox_id) FROM choir_control.outbox")
    inbox = NatsControlClient(world.bus)
    for parcels in (3, 2):  # what is known does not become less
        far = DeliveryProgress(outbox_id=outbox_id, parcels=parcels, message_id=f"m{parcels}")
        await inbox.keep_progress(far)
    await sent(world, 2)
    first, second = world.gateway.delivered
    assert first.partly_sent is None
    assert second.partly_sent == DeliveryProgress(outbox_id=outbox_id, parcels=3, message_id="m3")


async def test_replies_wait_for_the_bus_and_go_out_when_it_is_back(
    world: World, agent: AgentHand, nats: EmbeddedNats
) -> None:
    await nats.stop()

    async def unready() -> bool:
        return not await world.is_ready()

    await until(unready)
    assert list(await world.missing()) == ["nats"]
    assert (await world.get("/livez")).status_code == 200
    await agent.reply("first")
    await agent.reply("second")
    assert world.gateway.delivered == []
    await nats.start()
    assert await sent(world, 2) == ["first", "second"]


async def test_what_an_earlier_control_left_is_delivered_by_the_next(
    world: World, agent: AgentHand, nats: EmbeddedNats
) -> None:
    await nats.stop()
    await agent.reply("left behind")
    await world.stop()
    await nats.start()
    await world.start()
    assert await sent(world, 1) == ["left behind"]
    await asyncio.sleep(0.3)
    assert len(world.gateway.delivered) == 1


async def telegram_agent(world: World) -> AgentHand:
    """Start the agent whose DM is on Telegram; it needs the workspace that `main` holds."""
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await until(lambda: _ended(world, stopping))
    started = await world.post("/v1/agents/other/start")
    assert started.status_code == 200, started.text
    agent = await world.agent(starts=2)
    await agent.begin()
    return agent


async def _ended(world: World, stopping: "asyncio.Task[object]") -> bool:
    row = await world.database.fetchval(
        "SELECT status FROM choir_control.sessions WHERE agent_id = 'main'"
    )
    if row == "stopping":
        world.runtime.die("main", 0)
    return stopping.done()


async def status_of(world: World, text: str) -> str:
    return str(
        await world.database.fetchval(
            "SELECT status FROM choir_control.outbox WHERE text = $1", text
        )
    )


async def until_finished(world: World, status: str) -> None:
    async def finished() -> bool:
        return {
            row["status"]
            for row in await world.database.fetch("SELECT status FROM choir_control.outbox")
        } == {status}

    await until(finished)
