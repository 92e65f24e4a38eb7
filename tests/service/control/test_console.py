"""Control stores the console's messages; files and streams pass through it to the gateway."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from choir_common.http.client import make_client
from choir_common.http.listen import bind_unix, serve
from choir_common.http.response_parser import parse_events
from choir_control.api.operator.console import MAX_STREAMS
from tests.service.control.world import GATEWAY_TOKEN, World, until


class ConsoleStandIn:
    """A gateway's console that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.more = asyncio.Event()
        self.accepts = asyncio.Event()
        self.accepts.set()
        self.app = FastAPI()
        self.app.add_api_route("/v1/dms/{dm}/messages", self.messages, methods=["POST", "GET"])
        self.app.add_api_route("/v1/dms/{dm}/events", self.events, methods=["GET"])
        self.app.add_api_route("/v1/dms/{dm}/press", self.messages, methods=["POST"])
        self.app.add_api_route("/v1/dms/{dm}/files", self.take, methods=["PUT"])
        self.app.add_api_route(
            "/v1/dms/{dm}/messages/{number}/files/{ref}", self.give, methods=["GET"]
        )

    async def messages(self, dm: str, request: Request) -> JSONResponse:
        url = f"{request.url.path}?{request.url.query}"
        await self.accepts.wait()
        self.asked.append((request.method, url, await request.body(), dict(request.headers)))
        return JSONResponse({"inbox_id": "in_1"}, 202)

    async def take(self, dm: str, request: Request) -> JSONResponse:
        sizes = [len(piece) async for piece in request.stream()]
        url = f"{request.url.path}?{request.url.query}"
        self.asked.append(("PUT", url, b"", dict(request.headers)))
        return JSONResponse({"size": sum(sizes)}, 201)

    async def give(self, number: int, ref: str) -> StreamingResponse:
        self.asked.append(("GET", f"{number}/{ref}", b"", {}))
        headers = {"Content-Disposition": "attachment; filename*=UTF-8''a.png"}
        return StreamingResponse(iter([b"x" * 1000] * 5000), 200, headers)

    async def events(self, dm: str, request: Request) -> StreamingResponse:
        self.asked.append(("GET", str(request.url.path), b"", dict(request.headers)))
        return StreamingResponse(self._pieces(), media_type="text/event-stream")

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield b'id: 1\nevent: message\ndata: {"text":"one"}\n\n'
        await self.more.wait()
        yield b'id: 2\nevent: message\ndata: {"text":"two"}\n\n'


@pytest.fixture
async def console(world: World) -> AsyncIterator[ConsoleStandIn]:
    made, stop = ConsoleStandIn(), asyncio.Event()
    listener = bind_unix(Path(world.home / "socks" / "gateway.sock"))
    server = asyncio.create_task(serve(made.app, [listener], stop))
    yield made
    made.more.set()
    stop.set()
    await server


async def test_a_message_without_files_is_stored_while_the_gateway_is_away(world: World) -> None:
    body = {"text": "hello", "idempotency_key": "k1"}
    first, again = [await world.post("/v1/dms/console/messages", json=body) for _ in range(2)]
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["inbox_id"] == again.json()["inbox_id"] and again.json()["duplicate"]
    stored = await world.database.fetch(
        "SELECT gateway, update_id, dm, text, message_id FROM choir_control.inbox"
    )
    assert [tuple(row) for row in stored] == [("console", "console:k1", "console", "hello", "k1")]


NOT_TO_STORE = (
    ("nobody", {"text": "x"}, 404, "Configured: "),
    ("second", {"text": "x"}, 404, "is not on a console gateway"),
    ("console", {"text": ""}, 400, "give a text, or name a file"),
    ("console", {"text": "x", "idempotency_key": ""}, 400, "idempotency_key"),
)


async def test_what_cannot_be_stored_is_said_as_by_the_gateway(
    world: World, subtests: pytest.Subtests
) -> None:
    for dm, body, status, words in NOT_TO_STORE:
        with subtests.test(words):
            answer = await world.post(f"/v1/dms/{dm}/messages", json=body)
            assert answer.status_code == status and words in answer.json()["detail"]
            assert await world.database.fetchval("SELECT count(*) FROM choir_control.inbox") == 0


async def test_a_message_with_files_is_passed_on_and_its_answer_back(
    world: World, console: ConsoleStandIn
) -> None:
    body = '{"text": "héllo", "files": ["console/abc"]}'.encode()
    answer = await world.post("/v1/dms/console/messages?wait=1", content=body)
    assert (answer.status_code, answer.json()) == (202, {"inbox_id": "in_1"})
    [(method, url, sent, headers)] = console.asked
    assert (method, url, sent) == ("POST", "/v1/dms/console/messages?wait=1", body)
    # the gateway trusts control for every user
    assert headers["authorization"] == f"Bearer {GATEWAY_TOKEN}"


async def test_a_stream_comes_through_piece_by_piece_and_resumes(
    world: World, console: ConsoleStandIn
) -> None:
    async with (
        make_client(world.endpoint) as client,
        client.stream("GET", "/v1/dms/console/events", headers={"Last-Event-ID": "41"}) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = parse_events(answer.aiter_bytes())
        first = await asyncio.wait_for(anext(events), 60)
        assert (first.id, first.data) == ("1", '{"text":"one"}')
        console.more.set()
        assert (await asyncio.wait_for(anext(events), 60)).id == "2"
    assert console.asked[0][3]["last-event-id"] == "41"


async def test_two_hundred_open_streams_leave_room_for_messages(
    world: World, console: ConsoleStandIn
) -> None:
    path = "/v1/dms/console/events"
    async with contextlib.AsyncExitStack() as stack:
        reader = await stack.enter_async_context(make_client(world.endpoint))

        async def follow() -> int:
            answer = await stack.enter_async_context(reader.stream("GET", path))
            return int(answer.status_code)

        for _ in range(200):
            assert await follow() == 200
        body = {"text": "hello", "files": ["console/abc"]}
        assert (await world.post("/v1/dms/console/messages", json=body)).status_code == 202
        for _ in range(MAX_STREAMS - 200):
            assert await follow() == 200
        refused = await reader.get(path)
        assert refused.status_code == 429 and refused.headers["retry-after"]
        assert (await world.get("/v1/dms/console/messages")).status_code == 202

    async def has_room() -> bool:
        async with make_client(world.endpoint) as client, client.stream("GET", path) as answer:
            return answer.status_code == 200

    await until(has_room)


async def test_what_was_said_is_read_through_as_well(world: World, console: ConsoleStandIn) -> None:
    answer = await world.get("/v1/dms/console/messages?after=3")
    assert answer.status_code == 202
    assert console.asked[0][:2] == ("GET", "/v1/dms/console/messages?after=3")


async def test_a_press_is_passed_on_and_its_answer_back(
    world: World, console: ConsoleStandIn
) -> None:
    answer = await world.post("/v1/dms/console/press", content=b'{"data": "a:n:y"}')
    assert answer.status_code == 202
    assert console.asked[0][:3] == ("POST", "/v1/dms/console/press?", b'{"data": "a:n:y"}')


async def test_files_larger_than_any_other_body_pass_both_ways(
    world: World, console: ConsoleStandIn
) -> None:
    async with make_client(world.endpoint, timeout_s=60) as client:
        answer = await client.put("/v1/dms/console/files?name=a.png", content=b"x" * 9_000_000)
        assert (answer.status_code, answer.json()) == (201, {"size": 9_000_000})
        assert console.asked[0][1] == "/v1/dms/console/files?name=a.png"
        assert console.asked[0][3]["content-length"] == "9000000"
        answer = await client.get("/v1/dms/console/messages/7/files/0")
        assert len(answer.content) == 5_000_000
        assert "a.png" in answer.headers["content-disposition"]
        assert console.asked[1][1] == "7/0"
        for odd in (
            "/v1/dms/console/messages/7/files/..%2f0",
            "/v1/dms/console/messages/x/files/0",
        ):
            assert (await client.get(odd)).status_code in (400, 404), odd
        assert (
            await client.post("/v1/dms/console/messages", content=b"x" * 9_000_000)
        ).status_code == 413


@pytest.fixture
async def hanging_gateway(world: World) -> AsyncIterator[None]:
    """Have a gateway that accepts connections and answers none."""
    listening = bind_unix(world.settings.home / "socks" / "gateway.sock")
    yield
    listening.close()


@pytest.mark.usefixtures("hanging_gateway")
async def test_a_gateway_that_hangs_is_named(world: World, subtests: pytest.Subtests) -> None:
    for what in ("events", "messages"):
        with subtests.test(what):
            async with asyncio.timeout(60):
                answer = await world.get(f"/v1/dms/console/{what}", timeout=60)
            assert answer.status_code == 504 and answer.headers["retry-after"]
            assert "does not respond" in answer.json()["detail"]


@pytest.mark.usefixtures("hanging_gateway")
async def test_whoever_says_something_to_a_gateway_that_hangs_hears_that_repeating_is_safe(
    world: World,
) -> None:
    body = {"text": "hello", "files": ["console/abc"], "idempotency_key": "k1"}
    answer = await world.post("/v1/dms/console/messages", json=body)
    assert answer.status_code == 504
    assert "under the same idempotency key is safe" in answer.json()["detail"]


async def test_under_overload_messages_are_refused_at_once_with_the_time_to_come_back(
    world: World, console: ConsoleStandIn
) -> None:
    async def say(key: int) -> httpx2.Response:
        body = {"text": "hello", "files": ["console/abc"], "idempotency_key": f"k{key}"}
        return await world.post("/v1/dms/console/messages", json=body, timeout=300)

    console.accepts.clear()
    waiting = [asyncio.create_task(say(number)) for number in range(40)]
    async with asyncio.timeout(60):
        while not (done := [task for task in waiting if task.done()]):
            waiting.append(asyncio.create_task(say(len(waiting))))
            await asyncio.sleep(0.1)
    refused = done[0].result()
    assert refused.status_code == 503 and int(refused.headers["retry-after"]) >= 1
    said = refused.json()["detail"]
    assert "was not stored" in said and "same idempotency key, repeating it is safe" in said
    console.accepts.set()
    answers = await asyncio.gather(*waiting)
    assert sum(answer.status_code == 202 for answer in answers) >= 40
    # and a rejected client succeeds when it retries
    assert (await say(waiting.index(done[0]))).status_code == 202
