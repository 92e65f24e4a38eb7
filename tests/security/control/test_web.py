"""Attacks on the sign-in of the web page: reused links, stolen cookies, and requests of other pages."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from choir_common.clock import SystemClock
from choir_common.http.client import make_client
from choir_common.http.listen import bind_unix, serve
from choir_control.api.operator.browser_streams import MAX_STREAMS, MAX_TRANSFERS
from choir_control.web.service import IDLE_LIFETIME, LIFETIME, LINK_LIFETIME
from tests.service.control.world import OPERATOR_TOKEN, World, until
from tests.support.shell import ChoirctlRunner

SESSION = "/v1/web/session"


class LaterClock(SystemClock):
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass
class Browser:
    """A browser at the endpoint's TCP port; its client keeps the cookie."""

    client: httpx2.AsyncClient
    origin: str
    key: str = ""

    async def sign_in(self, **proof: str) -> httpx2.Response:
        answer = await self.client.post(SESSION, json=proof, headers={"Origin": self.origin})
        if answer.status_code == 201:
            self.key = answer.json()["key"]
        return answer

    async def status(self, path: str, method: str = "GET", **headers: str) -> int:
        own = {"Origin": self.origin, "X-Choir-Page-Key": self.key, **headers}
        sent = {name: value for name, value in own.items() if value}
        return (await self.client.request(method, path, headers=sent)).status_code

    async def names(self, path: str) -> list[str]:
        answer = await self.client.get(path, headers={"X-Choir-Page-Key": self.key})
        return [it["name"] for it in answer.json()["items"]]


@pytest.fixture
async def clock() -> LaterClock:
    return LaterClock()


@pytest.fixture
async def web(stopped: World, clock: LaterClock) -> World:
    """A ready choird with an owner at `console`, and a member at `kitchen`."""
    path = stopped.settings.config_file
    config = json.loads(path.read_text())
    config["dms"]["kitchen"] = {"gateway": "console", "user_id": "bob"}
    config["people"] = {
        "ada": {"role": "owner", "identities": [{"gateway": "console", "user": "operator"}]},
        "bob": {"role": "member", "identities": [{"gateway": "console", "user": "bob"}]},
        "cleo": {"role": "guest", "identities": [{"gateway": "bot", "user": "7"}]},
    }
    config["crash_detection_threshold_ms"] = 120_000
    path.write_text(json.dumps(config))
    stopped.clock = clock
    await stopped.start()
    return stopped


@pytest.fixture
async def browser(web: World) -> AsyncIterator[Browser]:
    async with make_client(web.tcp) as client:
        yield Browser(client, web.tcp)


async def link_for(web: World, person: str | None = None) -> str:
    """Return the token of a new link."""
    answer = await web.post("/v1/web/links", json={"person": person} if person else {})
    assert answer.status_code == 201, answer.text
    url = answer.json()["url"]
    assert url.startswith(f"{web.tcp}/web/#link=")
    return str(url.partition("#link=")[2])


async def test_a_link_works_once_and_its_session_ends_when_it_is_revoked(
    web: World, browser: Browser
) -> None:
    shell = ChoirctlRunner(web.home)
    shown = await asyncio.to_thread(lambda: shell.data("web", "link"))
    token = shown["url"].partition("#link=")[2]
    assert await browser.status("/v1/status") == 401
    answer = await browser.sign_in(link=token, path="/")
    assert answer.json()["role"] == "operator"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/;" in cookie
    assert await browser.status("/v1/status") == 200
    # another server on this host gets the cookie, but not the key
    assert (await browser.client.get(SESSION)).status_code == 401
    shown = await browser.client.get(SESSION, headers={"X-Choir-Page-Key": browser.key})
    assert shown.json()["key"] is None

    async with make_client(web.tcp) as other:
        assert (await Browser(other, web.tcp).sign_in(link=token)).status_code == 401
    [listed] = await asyncio.to_thread(lambda: shell.data("web", "sessions"))
    rows = await web.database.fetch("SELECT digest FROM choir_control.web_sessions")
    assert token.encode() not in rows[0]["digest"] and len(rows[0]["digest"]) == 32
    await asyncio.to_thread(lambda: shell.succeeds("web", "revoke", listed["web_session_id"]))
    assert await browser.status("/v1/status") == 401
    assert (await web.get("/v1/web/sessions")).json()["items"] == []
    assert (await web.delete("/v1/web/sessions/web_00")).status_code == 404


async def test_a_browser_signs_in_with_the_operator_token_and_out_again(
    web: World, browser: Browser
) -> None:
    answer = await browser.sign_in(token=OPERATOR_TOKEN, path="/choir/")
    assert answer.status_code == 201 and "path=/choir/;" in answer.headers["set-cookie"].lower()
    browser.client.cookies.clear()
    await browser.sign_in(token=OPERATOR_TOKEN)
    assert await browser.status("/v1/dms") == 200
    signed_out = await browser.client.delete(
        "/v1/web/session", headers={"Origin": web.tcp, "X-Choir-Page-Key": browser.key}
    )
    assert signed_out.status_code == 204
    assert await browser.status("/v1/dms") == 401
    for path in ("/x", "//evil.example/", "/a;b/", "/" + "a" * 300 + "/"):
        assert (await browser.sign_in(token=OPERATOR_TOKEN, path=path)).status_code == 400


async def test_a_browser_gets_what_services_say_in_its_language(
    web: World, browser: Browser
) -> None:
    body = {"language": "de-AT", "texts": ["Discord limits the rate.", "what an agent says", ""]}
    path = "/v1/web/session/sentences"
    german = {"Origin": web.tcp, "X-Choir-Language": "de"}
    refused = await browser.client.post(SESSION, json={"token": "wrong"}, headers=german)
    assert refused.headers["content-language"] == "de"
    assert refused.json()["detail"] == "Das Betreiber-Token ist falsch."
    assert (await browser.client.post(path, json=body)).status_code == 401
    await browser.sign_in(link=await link_for(web, "bob"))
    headers = {"Origin": web.tcp, "X-Choir-Page-Key": browser.key}
    answer = await browser.client.post(path, json=body, headers=headers)
    assert answer.json()["texts"] == ["Discord begrenzt die Rate.", "what an agent says", ""]
    too_long = {"language": "de", "texts": ["x" * 2_001]}
    assert (await browser.client.post(path, json=too_long, headers=headers)).status_code == 400


async def test_an_open_log_stream_ends_with_the_session_of_the_browser(
    web: World, browser: Browser
) -> None:
    agent = await web.agent()
    await agent.begin()
    await browser.sign_in(token=OPERATOR_TOKEN)
    [own] = (await web.get("/v1/web/sessions")).json()["items"]
    path = f"/v1/sessions/{agent.spec.session_id}/events/stream"
    async with browser.client.stream(
        "GET", path, headers={"X-Choir-Page-Key": browser.key}, timeout=200
    ) as stream:
        assert stream.status_code == 200
        pieces = stream.aiter_raw()
        await anext(pieces)
        assert (await web.delete(f"/v1/web/sessions/{own['web_session_id']}")).status_code == 204
        accepted = await web.say("a secret", "q1")
        await agent.take_up(await agent.next_message())
        await agent.reply("it is secret", answers=accepted.inbox_id)
        async with asyncio.timeout(200):
            seen = b"".join([piece async for piece in pieces])
    assert b"secret" not in seen


@contextlib.asynccontextmanager
async def slow_gateway(web: World) -> AsyncIterator[None]:
    """Run a gateway whose streams and files end with this block only."""
    gateway, stop, more = FastAPI(), asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b": keepalive\n\n"
        await more.wait()

    for path in ("/events", "/files/{token}", "/messages/{outbox_id}/files/{ref}"):
        gateway.add_api_route(
            f"/v1/dms/{{dm}}{path}", lambda: StreamingResponse(pieces()), methods=["GET"]
        )
    gateway.add_api_route(
        "/v1/dms/{dm}/files", lambda: {"token": "abc"}, methods=["PUT"], status_code=201
    )
    listener = bind_unix(Path(web.home / "socks" / "gateway.sock"))
    server = asyncio.create_task(serve(gateway, [listener], stop))
    try:
        yield
    finally:
        more.set()
        stop.set()
        await server


async def is_served(browser: Browser, path: str) -> bool:
    own = {"X-Choir-Page-Key": browser.key}
    async with browser.client.stream("GET", path, headers=own) as answer:
        return answer.status_code == 200


async def test_one_browser_has_a_limited_number_of_open_streams(
    web: World, browser: Browser
) -> None:
    agent = await web.agent()
    await browser.sign_in(token=OPERATOR_TOKEN)
    events = "/v1/dms/console/events"
    log = f"/v1/sessions/{agent.spec.session_id}/events/stream"
    own = {"X-Choir-Page-Key": browser.key}
    streams: list[AsyncIterator[bytes]] = []
    async with asyncio.timeout(60), slow_gateway(web), contextlib.AsyncExitStack() as stack:
        for number in range(MAX_STREAMS):
            path = (log, events)[number % 2]
            stream = browser.client.stream("GET", path, headers=own)
            answer = await stack.enter_async_context(stream)
            assert answer.status_code == 200
            streams.append(answer.aiter_raw())
            await anext(streams[-1])
        for path in (log, events):
            refused = await browser.client.get(path, headers=own)
            assert refused.status_code == 429 and refused.headers["retry-after"]
            assert "Close a tab" in refused.json()["detail"]
        # other browsers and programs have their own streams
        async with make_client(web.endpoint) as other, other.stream("GET", events) as answer:
            assert answer.status_code == 200
        await stack.aclose()
        await until(lambda: is_served(browser, log))


async def test_one_browser_sends_and_loads_a_limited_number_of_files_at_a_time(
    web: World, browser: Browser
) -> None:
    await browser.sign_in(token=OPERATOR_TOKEN)
    upload, sent = "/v1/dms/console/files/abc", "/v1/dms/console/messages/1/files/abc"
    own = {"X-Choir-Page-Key": browser.key, "Origin": web.tcp}
    files: list[AsyncIterator[bytes]] = []
    async with asyncio.timeout(60), slow_gateway(web), contextlib.AsyncExitStack() as stack:
        for number in range(MAX_TRANSFERS):
            download = browser.client.stream("GET", (upload, sent)[number % 2], headers=own)
            answer = await stack.enter_async_context(download)
            assert answer.status_code == 200
            files.append(answer.aiter_raw())
            await anext(files[-1])
        put = ("PUT", "/v1/dms/console/files")
        export, outbox = "/v1/agents/main/memory/export", "/v1/outbox/1/files/0"
        document = ("PUT", "/v1/agents/main/collections/house/files?name=a.txt")
        own_files = (("GET", upload), ("GET", sent), put)
        for method, path in (*own_files, ("GET", export), ("GET", outbox), document):
            refused = await browser.client.request(method, path, headers=own, content=b"x")
            assert refused.status_code == 429 and refused.headers["retry-after"] == "1", path
        # streams are counted by themselves, and other programs are not limited
        assert await is_served(browser, "/v1/dms/console/events")
        async with make_client(web.endpoint) as other, other.stream("GET", sent) as answer:
            assert answer.status_code == 200
        await stack.aclose()
        await until(lambda: is_served(browser, sent))
        assert (await browser.client.request(*put, headers=own, content=b"x")).status_code == 201


async def test_browsers_store_no_answer_and_guess_no_type(web: World, browser: Browser) -> None:
    answers = [
        await browser.sign_in(token="wrong"),
        await browser.sign_in(token=OPERATOR_TOKEN),
        await browser.client.get("/v1/status", headers={"X-Choir-Page-Key": browser.key}),
        await browser.client.get("/v1/status"),  # with the cookie alone
        await browser.client.get("/v1/nothing", headers={"X-Choir-Page-Key": browser.key}),
        # the gateway does not run
        await browser.client.get(
            "/v1/dms/console/messages", headers={"X-Choir-Page-Key": browser.key}
        ),
    ]
    assert [it.status_code for it in answers] == [401, 201, 200, 401, 404, 503]
    for answer in answers:
        assert answer.headers.get_list("cache-control") == ["no-store"], answer.url
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"], answer.url


async def test_requests_of_other_pages_are_refused(web: World, browser: Browser) -> None:
    proof = {"token": OPERATOR_TOKEN}
    port = web.settings.http_port
    for headers in (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{port + 1}"},
        # DNS rebinding: the name is the attacker's, and leads here
        {"Origin": f"http://evil.example:{port}", "Host": f"evil.example:{port}"},
        {"Origin": web.tcp, "Sec-Fetch-Site": "cross-site"},
    ):
        answer = await browser.client.post(SESSION, json=proof, headers=headers)
        assert answer.status_code == 403, headers
        assert "set-cookie" not in answer.headers

    assert (await browser.sign_in(**proof)).status_code == 201
    links = "/v1/web/links"
    assert await browser.status(links, "POST") == 201
    for case in (
        {"X-Choir-Page-Key": ""},
        {"X-Choir-Page-Key": "0" * 43},
        {"Origin": ""},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": f"evil.example:{port}"},
    ):
        assert await browser.status(links, "POST", **case) in (401, 403), case
    for case in ({"Host": f"evil.example:{port}"}, {"Sec-Fetch-Site": "cross-site"}):
        assert await browser.status("/v1/status", **case) in (401, 403), case
    assert await browser.status("/v1/status", Host=f"localhost:{port}", Origin="") == 200


async def test_the_pages_files_lead_to_no_other_route_of_the_gateway(web: World) -> None:
    for path in (
        "../v1/dms/console/messages",
        "%2e%2e/v1/dms/console/messages",
        "assets/..%2f..%2fv1/dms/console/messages",
        "assets/a/%2e%2e/x",
        "%2fv1",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", web.settings.http_port)
        head = f"GET /web/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        # with 503 it would have asked the gateway, which does not run here
        assert answer.split()[1] == b"400", answer


async def test_failed_sign_ins_are_limited(browser: Browser) -> None:
    for _ in range(10):
        assert (await browser.sign_in(token="guess")).status_code == 401
    refused = await browser.sign_in(token="guess")
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
    # the failures of others behind the same proxy lock nobody out
    assert (await browser.sign_in(token=OPERATOR_TOKEN)).status_code == 201


async def test_a_persons_session_reaches_the_own_conversations_only(
    web: World, browser: Browser
) -> None:
    assert (await web.post("/v1/web/links", json={"person": "nobody"})).status_code == 404
    assert (await web.post("/v1/web/links", json={"person": "cleo"})).status_code == 409
    answer = await browser.sign_in(link=await link_for(web, "bob"))
    assert (answer.json()["person"], answer.json()["role"]) == ("bob", "member")
    assert await browser.names("/v1/dms") == ["kitchen"]
    assert await browser.status("/v1/dms/kitchen/history") == 200
    schema = (await web.get("/v1/openapi.json")).json()
    own = {"/v1/dms", *(f"{SESSION}{end}" for end in ("", "/push", "/presence", "/sentences"))}
    tried = 0
    for path, methods in schema["paths"].items():
        # each route of another's conversation, and all that is for operators
        if path in own or not path.startswith("/v1/") or path == "/v1/hooks/{name}":
            continue
        url = path.replace("{dm}", "console").replace("{agent_id}", "main")
        for method in methods:
            assert await browser.status(url, method.upper()) == 403, (method, path)
            tried += 1
    assert tried > 100
    assert await browser.status("/v1/dms/nobody/history") == 403


async def test_sessions_and_links_expire(web: World, browser: Browser, clock: LaterClock) -> None:
    late = await link_for(web)
    clock.ahead = LINK_LIFETIME + timedelta(seconds=1)
    assert (await browser.sign_in(link=late)).status_code == 401
    await browser.sign_in(link=await link_for(web))
    clock.ahead += IDLE_LIFETIME + timedelta(minutes=1)
    assert await browser.status("/v1/dms") == 401

    await browser.sign_in(link=await link_for(web))
    began = clock.ahead
    while clock.ahead < began + LIFETIME - timedelta(days=5):
        clock.ahead += timedelta(days=5)
        assert await browser.status("/v1/dms") == 200
    clock.ahead = began + LIFETIME + timedelta(seconds=1)
    assert await browser.status("/v1/dms") == 401


async def test_both_sides_of_a_conversation_are_read_in_pages_and_searched(
    web: World,
) -> None:
    agent = await web.agent()
    await agent.begin()
    for number in range(3):
        accepted = await web.say(f"question {number}", f"q{number}")
        await agent.take_up(await agent.next_message())
        await agent.reply(f"answer {number} is 100% sure", answers=accepted.inbox_id)

    async def page(**query: Any) -> dict[str, Any]:
        answer = await web.get("/v1/dms/console/history", params=query)
        assert answer.status_code == 200, answer.text
        read: dict[str, Any] = answer.json()
        return read

    def texts(of: dict[str, Any]) -> list[str]:
        return [(it["incoming"] or it["outgoing"])["text"] for it in of["entries"]]

    async def complete() -> bool:
        return len((await page())["entries"]) == 6

    await until(complete)
    newest = await page(limit=4)
    earlier = await page(limit=4, before=newest["earlier"])
    assert texts(earlier) + texts(newest) == [
        text for n in range(3) for text in (f"question {n}", f"answer {n} is 100% sure")
    ]
    assert earlier["earlier"] is None and newest["last"] > 0
    assert texts(await page(q="QUESTION 1")) == ["question 1"]
    assert len(texts(await page(q="100%"))) == 3 and texts(await page(q="0_%")) == []
    # from the second question on, and both ways from there
    [second] = (await page(q="question 1"))["entries"]
    middle = await page(limit=3, at=second["incoming"]["at"])
    assert texts(middle) == ["question 1", "answer 1 is 100% sure", "question 2"]
    after = await page(limit=3, after=middle["later"])
    assert texts(after) == ["answer 2 is 100% sure"] and after["later"] is None
    assert texts(await page(before=middle["earlier"])) == texts(earlier)
    assert texts(await page(before=after["earlier"])) == [*texts(earlier), *texts(middle)]
    first = await page(limit=1, at="2020-01-01T00:00:00Z")
    assert (texts(first), first["earlier"]) == (["question 0"], None)
    assert (await page(at="2999-01-01T00:00:00Z"))["entries"] == []
    for wrong in (
        "at=2020-01-01T00:00:00",
        "at=x",
        "after=1",
        "after=1.0.1&at=2020-01-01T00:00:00Z",
    ):
        assert (await web.get(f"/v1/dms/console/history?{wrong}")).status_code == 400, wrong
    await web.say("question 3, corrected", "console:k2", edits="k1")
    [corrected] = (await page(q="corrected"))["entries"]
    # its own key, so that clients know it again, and that of the message that it corrects
    assert (corrected["incoming"]["key"], corrected["incoming"]["edits"]) == ("k2", "k1")
    assert (await web.get("/v1/dms/console/history?before=1.2.3")).status_code == 400
    assert (await web.get("/v1/dms/nobody/history")).status_code == 404
