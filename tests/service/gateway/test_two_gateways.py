"""Two gateways as processes that share a bot by the lease of control, before the strict fake of Telegram."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from choir_common.http.client import make_client
from choir_local.nats import EmbeddedNats
from choir_testing.telegram import FakeTelegram
from choir_testing.telegram.user import FakeUser
from tests.service.gateway.conftest import MAIN_TOKEN, WORK_TOKEN
from tests.service.gateway.control_stand_in import ControlStandIn
from tests.service.gateway.test_telegram import deliver_until_done
from tests.support.ports import free_port
from tests.support.service_process import ServiceProcess, service_process

KILLS = int(os.environ.get("CHOIR_GATEWAY_KILLS", "1"))
GATEWAY_TOKEN = "token-of-both-gateways"
TAKES_OVER_WITHIN_S = 30.0
"""On a busy machine; docs/decisions/0122 has what was measured."""
REPEATED = "(possibly repeated) "


@pytest.fixture
async def pair(nats: EmbeddedNats, control: ControlStandIn) -> AsyncIterator[list[ServiceProcess]]:
    """Two gateways on addresses of their own with the same port, as pods have."""
    async with contextlib.AsyncExitStack() as stack:
        port, pair = free_port(), list[ServiceProcess]()
        for ip in ("127.0.0.2", "127.0.0.3"):
            env = {"CHOIR_GATEWAY_HTTP": f"{ip}:{port}", "CHOIR_GATEWAY_IP": ip}
            process = await stack.enter_async_context(
                service_process("choir_gateway", nats.url, env)
            )
            process.address = f"http://{ip}:{port}"
            process.secrets = {
                "gateway_token": GATEWAY_TOKEN,
                "secrets": {"main-token": MAIN_TOKEN, "work-token": WORK_TOKEN},
            }
            await process.start()
            pair.append(process)
        yield pair


def working(control: ControlStandIn, pair: list[ServiceProcess]) -> tuple[int, int]:
    """Return the numbers of the gateway to which control leads, and of the other one."""
    number = next(n for n, it in enumerate(pair) if f"//{control.route.address}:" in it.address)
    return number, 1 - number


async def until(holds: Callable[[], bool], within_s: float = 60.0) -> float:
    """Wait until something holds; return the seconds it took."""
    start = time.monotonic()
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.02)
    return time.monotonic() - start


class Traffic:
    """A user who writes all the time, and control, which answers each message once."""

    def __init__(self, control: ControlStandIn, user: FakeUser) -> None:
        self.sent: list[str] = []
        self.answered: list[str] = []
        self._control = control
        self._user = user

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._answer(stop))
            while not stop.is_set():
                self.sent.append(f"message {len(self.sent)}")
                await self._user.send(self.sent[-1])
                await asyncio.sleep(0.05)
        await until(lambda: len(self._control.inbox) == len(self.sent))

    async def _answer(self, stop: asyncio.Event) -> None:
        """Deliver one answer after the other, as the outbox does in a conversation."""
        while not stop.is_set():
            text = f"answer {len(self.answered)}"
            await deliver_until_done(self._control, self._control.keep("alice", text))
            self.answered.append(text)


def check_nothing_lost(traffic: Traffic, control: ControlStandIn, user: FakeUser) -> None:
    """Each message is in the inbox once and in order, and each answer reached the user once.

    An answer that was in flight at a kill may come twice; then the second one says so.
    """
    assert [message.text for message in control.inbox.values()] == traffic.sent
    texts = user.chat.bot_texts()
    unlabelled = [text for text in texts if not text.startswith(REPEATED)]
    assert len(unlabelled) == len(set(unlabelled)), "an answer came twice without a word"
    assert {text.removeprefix(REPEATED) for text in texts} == set(traffic.answered)


async def kill_while_busy(
    kills: int, pair: list[ServiceProcess], control: ControlStandIn, telegram: FakeTelegram
) -> list[float]:
    """Kill the working gateway in the middle of traffic, again and again; return how long each was missed."""
    alice = telegram.user(7, MAIN_TOKEN)
    traffic, stop, taken = Traffic(control, alice), asyncio.Event(), list[float]()
    running = asyncio.create_task(traffic.run(stop))
    for _ in range(kills):
        before = len(control.inbox)
        await until(lambda before=before: len(control.inbox) > before + 10)  # type: ignore[misc]
        number, other = working(control, pair)
        await pair[number].kill()
        # until the first message that the other one receives; those that waited follow in order
        stored = len(control.inbox)
        taken.append(await until(lambda it=stored: len(control.inbox) > it))  # type: ignore[misc]
        assert working(control, pair) == (other, number)
        await pair[number].start()
    stop.set()
    await running
    check_nothing_lost(traffic, control, alice)
    print("missed for", [round(it, 1) for it in taken])
    return taken


async def test_a_killed_gateway_is_replaced_by_its_standby_and_nothing_is_lost_or_doubled(
    pair: list[ServiceProcess], control: ControlStandIn, telegram: FakeTelegram
) -> None:
    taken = await kill_while_busy(KILLS, pair, control, telegram)
    assert max(taken) < TAKES_OVER_WITHIN_S
    assert "Conflict" not in pair[0].log + pair[1].log


async def test_a_gateway_that_stops_is_replaced_at_once_and_a_paused_one_does_not_come_back(
    pair: list[ServiceProcess], control: ControlStandIn, telegram: FakeTelegram
) -> None:
    number, other = working(control, pair)
    async with make_client(pair[other].endpoint) as client:
        standby = await client.get("/readyz")
        header = {"Authorization": f"Bearer {GATEWAY_TOKEN}"}
        refused = await client.get("/v1/dms/console/messages", headers=header)
    assert (standby.status_code, refused.status_code) == (200, 503)
    assert "Standby" in standby.text
    assert await pair[number].stop() == 0
    assert await until(lambda: working(control, pair)[0] == other) < 3
    await pair[number].start()
    alice = telegram.user(7, MAIN_TOKEN)
    await alice.send("to the second")
    await until(lambda: len(control.inbox) == 1)

    paused = pair[other].process
    assert paused is not None
    os.kill(paused.pid, signal.SIGSTOP)
    try:
        await until(lambda: working(control, pair)[0] == number, TAKES_OVER_WITHIN_S)
        await alice.send("to the first")
        await until(lambda: len(control.inbox) == 2)
    finally:
        os.kill(paused.pid, signal.SIGCONT)

    async def stands_by() -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            async with make_client(pair[other].endpoint) as client:
                return "Standby" in (await client.get("/readyz")).text
        return False

    async with asyncio.timeout(20):
        while not await stands_by():
            await asyncio.sleep(0.1)
    assert working(control, pair) == (number, other)
    assert [message.text for message in control.inbox.values()] == ["to the second", "to the first"]
