"""Notifications by Web Push: who gets them, what they say, and which addresses are sent to."""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest

from choir_common.http.client import make_client
from choir_common.wire.attachments import Button
from choir_testing.fake_push_service import (
    FakePushService,
    FakeSubscription,
    run_push_service,
)
from tests.security.control.test_web import Browser, link_for
from tests.service.control.world import World, until
from tests.support.mail import make_certificate

PUSH = "/v1/web/session/push"
PRESENCE = "/v1/web/session/presence"
ANSWER = "the answer that nobody else may read"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePushService]:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))
    with run_push_service(certificate.server_context()) as made:
        yield made


@pytest.fixture
async def world(stopped: World, service: FakePushService) -> AsyncIterator[World]:
    """A ready choird with an owner at `console` and a member at `kitchen`."""
    path = stopped.settings.config_file
    config = json.loads(path.read_text())
    config["dms"]["kitchen"] = {"gateway": "console", "user_id": "bob"}
    config["people"] = {
        "ada": {"role": "owner", "identities": [{"gateway": "console", "user": "operator"}]},
        "bob": {"role": "member", "identities": [{"gateway": "console", "user": "bob"}]},
    }
    path.write_text(json.dumps(config))
    stopped.settings = stopped.settings.model_copy(
        update={"web_push_allow": f"localhost:{service.port}"}
    )
    await stopped.start()
    yield stopped


class SignIn(Protocol):
    async def __call__(self, person: str | None) -> Browser: ...


@pytest.fixture
async def sign_in(world: World) -> AsyncIterator[SignIn]:
    """Sign browsers in; they are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_browser(person: str | None) -> Browser:
            client = await stack.enter_async_context(make_client(world.tcp))
            browser = Browser(client, world.tcp)
            answer = await browser.sign_in(link=await link_for(world, person))
            assert answer.status_code == 201, answer.text
            return browser

        yield open_browser


async def call(browser: Browser, method: str, path: str, **body: Any) -> httpx2.Response:
    headers = {"Origin": browser.origin, "X-Choir-Page-Key": browser.key}
    return await browser.client.request(method, path, headers=headers, json=body or None)


async def subscribe(browser: Browser, service: FakePushService) -> FakeSubscription:
    shown = (await call(browser, "GET", PUSH)).json()
    subscription = service.subscribe(shown["public_key"])
    answer = await call(browser, "PUT", PUSH, **subscription.body)
    assert answer.status_code == 204, answer.text
    return subscription


async def is_subscribed(browser: Browser) -> bool:
    return bool((await call(browser, "GET", PUSH)).json()["subscribed"])


async def count(world: World) -> int:
    return int(
        await world.database.fetchval("SELECT count(*) FROM choir_control.web_push_subscriptions")
    )


async def test_a_delivered_answer_is_announced_to_its_people_until_they_sign_out(
    world: World, service: FakePushService, sign_in: SignIn
) -> None:
    agent = await world.agent()
    await agent.begin()
    operator, ada, bob = [await sign_in(name) for name in (None, "ada", "bob")]
    numbers = itertools.count()
    told: list[FakeSubscription] = []

    async def answer(expected: list[int]) -> None:
        """Let the agent answer, and wait until the browsers have so many notifications."""
        accepted = await world.say("a question", f"q{next(numbers)}")
        await agent.take_up(await agent.next_message())
        await agent.reply(ANSWER, answers=accepted.inbox_id)

        async def arrived() -> bool:
            return [len(it.received) for it in told] == expected

        await until(arrived, within=90)

    # an answer that nobody wanted to hear about does not hide those who subscribe afterwards
    await answer([])
    assert world.control is not None
    notifier = world.control.services.web.push.notifier
    await notifier.wait_until_idle()
    told += [await subscribe(it, service) for it in (operator, ada, bob)]
    await answer([1, 1, 0])
    assert told[0].received == [{"kind": "message", "agent": "main", "dm": "console"}]
    # the length tells the push service nothing, and a name is what it was asked for
    assert told[0].sizes == told[1].sizes and service.hosts == {f"localhost:{service.port}"}

    # one of them has the page in view, so nobody is told; then it is hidden again
    assert (await call(ada, "PUT", PRESENCE, page="p", visible=True)).status_code == 204
    message = world.gateway.delivered[-1]
    notifier.notify(message)
    await notifier.wait_until_idle()
    assert [len(it.received) for it in told] == [1, 1, 0]
    await call(ada, "PUT", PRESENCE, page="p", visible=False)
    # neither corrections nor messages of other channels are announced
    notifier.notify(message.model_copy(update={"gateway": "bot"}))
    notifier.notify(message.model_copy(update={"kind": "notice"}))
    notifier.notify(message.model_copy(update={"buttons": (Button(label="Yes", data="y"),)}))
    await notifier.wait_until_idle()
    assert [len(it.received) for it in told] == [2, 2, 0]
    assert told[0].received[-1]["kind"] == "request"

    # a subscription that ended at the push service is deleted
    told[1].answer = 410
    await answer([3, 2, 0])

    async def dropped() -> bool:
        return not await is_subscribed(ada)

    await until(dropped, within=90)
    told[1] = await subscribe(ada, service)
    [own] = [
        it for it in (await world.get("/v1/web/sessions")).json()["items"] if it["person"] is None
    ]
    assert (await world.delete(f"/v1/web/sessions/{own['web_session_id']}")).status_code == 204
    await answer([3, 1, 0])

    assert (await call(bob, "DELETE", PUSH)).status_code == 204
    assert not await is_subscribed(bob) and await count(world) == 1
    # what the erasure of a person does with the browsers
    await world.control.services.web.sessions.end_all_of("ada")
    assert await count(world) == 0
    assert service.refused == []


async def test_addresses_of_the_own_network_are_refused_and_the_key_stays(
    world: World, service: FakePushService, sign_in: SignIn
) -> None:
    bob = await sign_in("bob")
    key = (await call(bob, "GET", PUSH)).json()["public_key"]
    good = service.subscribe(key)
    for endpoint in (
        f"http://localhost:{service.port}/x",
        f"https://127.0.0.2:{service.port}/x",
        world.tcp,
        "https://169.254.169.254/latest",
        f"https://localhost:{world.settings.http_port}/v1/status",
    ):
        answer = await call(bob, "PUT", PUSH, **{**good.body, "endpoint": endpoint})
        assert answer.status_code == 400 and "127.0.0" not in answer.text, endpoint
    assert (await call(bob, "PUT", PUSH, **{**good.body, "p256dh": "AA"})).status_code == 400
    assert await count(world) == 0
    # a browser has one subscription, and one that signed in again takes its address along
    await subscribe(bob, service)
    again = await subscribe(bob, service)
    other = await sign_in("bob")
    assert (await call(other, "PUT", PUSH, **again.body)).status_code == 204
    assert await count(world) == 1 and not await is_subscribed(bob)
    # neither the operator's token nor another page has a browser to notify
    assert (await world.get(PUSH)).status_code == 400
    forged = {"Origin": "https://evil.example", "X-Choir-Page-Key": bob.key}
    refused = await bob.client.request("PUT", PUSH, headers=forged, json=again.body)
    assert refused.status_code == 403
    await world.stop()
    await world.start()
    assert (await call(other, "GET", PUSH)).json() == {"public_key": key, "subscribed": True}
