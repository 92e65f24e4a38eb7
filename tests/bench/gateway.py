"""Messages in and out through the gateway, between a fake Telegram and a fake control.

Single messages measure the latency that the gateway adds, compared with a bare HTTP client against the same
fake. Then all users at once measure throughput. Everything except the gateway and NATS runs in this process,
so the throughput is a lower bound.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx2

from choir_common.bus.client import Bus
from choir_common.wire.messages import DmBinding, InboundAccepted, InboundMessage
from choir_testing.telegram import FakeTelegram, FakeUser, run_fake_telegram
from tests.bench.figures import percentile
from tests.service.gateway.control_stand_in import (
    ControlStandIn,
    bot_gateway,
    channel_table,
    running_control,
)
from tests.support.bus import BUS_KEY
from tests.support.service_process import running_bus_server, service_process

BOTS = 8
USERS_EACH = 25
# Few enough per chat that none of Telegram's rate limits affects the result.
MESSAGES_IN, MESSAGES_OUT = 5, 1
SINGLES = 60
BARE = "999:bare"
WITHIN_S = 180.0


@dataclass
class TimedFakeControl(ControlStandIn):
    """Fake control that records when each message arrives."""

    came: "asyncio.Queue[float]" = field(default_factory=asyncio.Queue)

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        """Record the time and accept the message."""
        self.came.put_nowait(time.perf_counter())
        return await super().accept(message)


def _token(bot: int) -> str:
    return f"{100 + bot}:secret-{bot}"


def _user_id(bot: int, user: int) -> int:
    return 1_000 * (bot + 1) + user


@contextlib.asynccontextmanager
async def running_gateway() -> AsyncIterator[tuple[TimedFakeControl, FakeTelegram]]:
    """Start all servers and the gateway, with `BOTS` bots and `USERS_EACH` users per bot."""
    async with run_fake_telegram() as telegram, running_bus_server() as nats:
        gateways = [bot_gateway(f"bot{b}", f"token{b}", telegram.api_url) for b in range(BOTS)]
        dms = [
            DmBinding(
                name=f"dm{b}-{u}", gateway=f"bot{b}", user_id=str(_user_id(b, u)), admin=False
            )
            for b in range(BOTS)
            for u in range(USERS_EACH)
        ]
        for bot in range(BOTS):
            telegram.bot(_token(bot))
        async with Bus(nats.url, BUS_KEY, "control") as bus:
            control = TimedFakeControl(bus, channel_table(*gateways, *dms))
            async with (
                running_control(bus, control.table, control),
                service_process("choir_gateway", nats.url) as process,
            ):
                process.secrets = {"secrets": {f"token{b}": _token(b) for b in range(BOTS)}}
                await process.start()
                yield control, telegram
                await process.stop()


async def _bare_in(telegram: FakeTelegram, client: httpx2.AsyncClient) -> list[float]:
    """Return milliseconds from a user's message to a bare poll's response, confirmed as by the gateway."""
    user, offset, taken = telegram.user(1, BARE), 0, []
    for number in range(SINGLES):
        poll = asyncio.create_task(_poll(client, offset))
        await asyncio.sleep(0.01)  # the poll has to be waiting at the server, as usual for a bot
        start = time.perf_counter()
        offset = await user.send(f"{number}") + 1
        await poll
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def _poll(client: httpx2.AsyncClient, offset: int) -> None:
    body = {"offset": offset, "timeout": 10, "allowed_updates": []}
    answer = await client.post(f"/bot{BARE}/getUpdates", json=body)
    if not answer.json()["result"]:
        raise AssertionError("nothing came")


async def _bare_out(telegram: FakeTelegram, client: httpx2.AsyncClient) -> list[float]:
    user, taken = telegram.user(1, BARE), []
    for number in range(SINGLES):
        start = time.perf_counter()
        await client.post(f"/bot{BARE}/sendMessage", json={"chat_id": 1, "text": f"{number}"})
        await user.receive()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def _single_in(control: TimedFakeControl, user: FakeUser) -> list[float]:
    taken = []
    for number in range(SINGLES):
        start = time.perf_counter()
        update = await user.send(f"{number}")
        taken.append((await control.came.get() - start) * 1000)
        await user.until_confirmed(update)
    return taken


async def _single_out(control: TimedFakeControl, users: dict[str, FakeUser]) -> list[float]:
    taken = []
    for dm, user in list(users.items())[:SINGLES]:
        start = time.perf_counter()
        await control.say(dm, "an answer")
        await user.receive()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def _all_in(control: TimedFakeControl, users: dict[str, FakeUser]) -> float:
    """Return incoming messages per second with all users writing at once."""
    count = MESSAGES_IN * len(users)
    start = time.perf_counter()
    for number in range(MESSAGES_IN):
        for user in users.values():
            await user.send(f"{number}")
    for _ in range(count):
        await control.came.get()
    return count / (time.perf_counter() - start)


async def _all_out(control: TimedFakeControl, users: dict[str, FakeUser]) -> float:
    """Return outgoing messages per second with all users answered at once."""
    start = time.perf_counter()
    for _ in range(MESSAGES_OUT):
        await asyncio.gather(*(control.say(dm, "an answer") for dm in users))
    for user in users.values():
        await user.receive_many(MESSAGES_OUT, WITHIN_S)
    return MESSAGES_OUT * len(users) / (time.perf_counter() - start)


async def measure_gateway() -> dict[str, float]:
    """Return the milliseconds that the gateway adds to a message, and messages per second."""
    async with (
        running_gateway() as (control, telegram),
        httpx2.AsyncClient(base_url=telegram.api_url, trust_env=False, timeout=60) as client,
        asyncio.timeout(WITHIN_S),
    ):
        users = {
            f"dm{b}-{u}": telegram.user(_user_id(b, u), _token(b))
            # interleave the bots, so that single messages do not wait for a bot's rate limit
            for u in range(USERS_EACH)
            for b in range(BOTS)
        }
        first = users["dm0-0"]
        await first.send("warm up")
        await control.came.get()
        floor_in, floor_out = await _bare_in(telegram, client), await _bare_out(telegram, client)
        single_in, single_out = await _single_in(control, first), await _single_out(control, users)
        in_per_s, out_per_s = await _all_in(control, users), await _all_out(control, users)
    figures: dict[str, float] = {}
    for way, ours, floor in (("in", single_in, floor_in), ("out", single_out, floor_out)):
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            added = percentile(ours, share) - percentile(floor, share)
            figures[f"{way}_added_{name}_ms"] = round(added, 1)
        figures[f"{way}_floor_p50_ms"] = round(percentile(floor, 0.5), 1)
    figures |= {"in_per_s": round(in_per_s), "out_per_s": round(out_per_s)}
    return figures | {"bots": BOTS, "users": len(users)}
