"""The HTTP room over real sockets: health, problems, body limit, SSE, and ports that are taken."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated

import fastapi
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from structlog.testing import capture_logs

from choir_common.errors import Conflict, StartupError
from choir_common.http.client import make_client
from choir_common.http.health_app import make_health_app
from choir_common.http.listen import bind_tcp, bind_unix, serve
from choir_common.http.response_parser import ServerSentEvent, parse_events
from choir_common.http.responses import KEEPALIVE, event_stream_response, render_event
from choir_common.http.service_app import make_service_app
from choir_common.ids import AGENT_ID_RULE, NAME_PATTERN
from choir_common.metrics import Metrics
from choir_common.process import DEADLINE_PASSED
from choir_common.wire.operator import ComponentStatus
from tests.support.ports import free_port


class UnreadyPostgres:
    async def check(self) -> list[ComponentStatus]:
        return [ComponentStatus(name="postgres", ok=False, detail="refuses connections")]


def make_app() -> FastAPI:
    app = make_service_app("test", "1", UnreadyPostgres(), max_body_bytes=1000)

    @app.post("/echo")
    async def echo(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.get("/conflict")
    async def conflict() -> None:
        raise Conflict("It already runs; stop it first.")

    @app.get("/agents/{agent_id}")
    async def agent(agent_id: Annotated[str, fastapi.Path(pattern=NAME_PATTERN)]) -> str:
        return agent_id

    @app.get("/bug")
    async def bug() -> None:
        raise RuntimeError("inner detail")

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            for number in range(3):
                yield render_event(ServerSentEvent(str(number), "n", '{"a": "line\\nbreak"}'))
                yield KEEPALIVE
            await asyncio.sleep(60)

        return event_stream_response(body())

    return app


@pytest.fixture(params=["unix", "tcp"])
async def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "unix":
        sock, url = bind_unix(tmp_path / "s" / "x.sock"), f"unix://{tmp_path}/s/x.sock"
    else:
        sock = bind_tcp("127.0.0.1", 0, "CHOIR_X")
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(make_app(), [sock], stop))
        yield url
        stop.set()


async def test_health_tells_life_and_readiness_apart(endpoint: str) -> None:
    async with make_client(endpoint) as client:
        assert (await client.get("/livez")).status_code == 200
        ready = await client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["parts"][0]["detail"] == "refuses connections"


async def test_an_app_without_an_api_has_health_and_metrics_and_takes_no_body(
    tmp_path: Path,
) -> None:
    stop, metrics = asyncio.Event(), Metrics("test")
    async with asyncio.TaskGroup() as tasks:
        app = make_health_app(UnreadyPostgres(), metrics)
        tasks.create_task(serve(app, [bind_unix(tmp_path / "s" / "x.sock")], stop))
        async with make_client(f"unix://{tmp_path}/s/x.sock") as client:
            live, ready = await client.get("/livez"), await client.get("/readyz")
            wrong = await client.post("/readyz")
            missing = await client.get("/openapi.json")
            large = await client.post("/readyz", content=b"x")
            counts = (await client.get("/metrics")).text
        stop.set()
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()["ready"]) == (503, False)
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "application/problem+json")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (large.status_code, large.json()["code"]) == (413, "too_large")
    assert 'choir_http_requests_total{method="GET",route="/readyz",status="503"} 1.0' in counts


async def test_errors_are_problem_documents(endpoint: str) -> None:
    async with make_client(endpoint) as client:
        conflict = await client.get("/conflict")
        missing = await client.get("/nowhere")
        wrong = await client.get("/echo")
    assert conflict.headers["content-type"] == "application/problem+json"
    assert (conflict.status_code, conflict.json()["code"]) == (409, "conflict")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert wrong.status_code == 405


async def test_a_response_arrives_in_one_piece(tmp_path: Path) -> None:
    path, stop = tmp_path / "s" / "x.sock", asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(make_app(), [bind_unix(path)], stop))
        pieces = await asyncio.to_thread(first_pieces, path, requests=30)
        stop.set()
    assert {piece.rpartition(b"\r\n\r\n")[2] for piece in pieces} == {b'{"status":"ok"}'}


def first_pieces(path: Path, requests: int) -> list[bytes]:
    """Return what the first read of each response gets, on one connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
        pieces = []
        for _ in range(requests):
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: choir\r\n\r\n")
            pieces.append(client.recv(4096))
        return pieces


async def test_a_request_for_a_web_socket_gets_the_plain_response(
    endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with make_client(endpoint, headers=upgrade) as client:
        assert (await client.get("/livez")).json() == {"status": "ok"}
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


def test_a_service_does_not_load_the_models_of_pydantic_1() -> None:
    make_app()
    assert sys.modules["pydantic.v1"] is None


async def test_what_is_not_there_and_what_does_not_fit_is_told_in_words(endpoint: str) -> None:
    async with make_client(endpoint) as client:
        missing = await client.get("/nowhere")
        unfit = await client.get("/agents/Not an id")
    assert missing.json()["detail"] == "There is no route GET /nowhere."
    assert (unfit.status_code, unfit.json()["code"]) == (400, "bad_input")
    assert unfit.json()["detail"] == f"path.agent_id: {AGENT_ID_RULE}"


async def closed_client() -> None:
    client = make_client("http://127.0.0.1:1")
    await client.aclose()
    await client.get("/")


async def closed_transport() -> None:
    """What uvloop raises when a transport that was just aborted is written to."""
    raise RuntimeError(
        "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
    )


async def in_a_group() -> None:
    raise ExceptionGroup("unhandled errors in a TaskGroup", [ConnectionResetError("peer")])


async def refused() -> None:
    await asyncio.open_connection("127.0.0.1", free_port())


async def cut_short() -> None:
    reader = asyncio.StreamReader()
    reader.feed_eof()
    await reader.readexactly(4)


async def too_late() -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(60)


async def transport_error() -> None:
    async with make_client(f"http://127.0.0.1:{free_port()}") as client:
        await client.get("/")


@pytest.mark.parametrize(
    "lose",
    [closed_client, closed_transport, in_a_group, refused, cut_short, too_late, transport_error],
)
async def test_a_connection_that_breaks_inside_a_request_is_a_503_and_logged(
    tmp_path: Path, lose: Callable[[], Awaitable[None]]
) -> None:
    app, stop = make_app(), asyncio.Event()
    app.add_api_route("/lose", lose)
    sock = bind_unix(tmp_path / "x.sock")
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(app, [sock], stop))
            async with make_client(f"unix://{tmp_path}/x.sock") as client:
                answer = await client.get("/lose")
                bug = await client.get("/bug")
            stop.set()
    assert (answer.status_code, answer.json()["code"]) == (503, "outcome_unknown")
    assert answer.headers["retry-after"] == "2"
    assert (bug.status_code, bug.json()["code"]) == (500, "internal")
    failed = [line["path"] for line in lines if line["event"] == "request failed"]
    assert failed == ["/lose", "/bug"]


async def test_a_request_that_the_end_of_the_process_cuts_off_is_told_so(tmp_path: Path) -> None:
    app, asked = make_app(), asyncio.Event()

    @app.get("/endless")
    async def endless() -> None:
        asked.set()
        await asyncio.sleep(600)

    stop = asyncio.Event()
    serving = asyncio.create_task(serve(app, [bind_unix(tmp_path / "x.sock")], stop))
    async with make_client(f"unix://{tmp_path}/x.sock", timeout_s=60) as client:
        waiting = asyncio.create_task(client.get("/endless"))
        async with asyncio.timeout(60):
            await asked.wait()
        stop.set()
        answer = await waiting
    await serving
    assert (answer.status_code, answer.json()["code"]) == (503, "outcome_unknown")
    assert answer.headers["retry-after"]


STUBBORN = """
import asyncio, time
from choir_common.http.listen import stop_on_signals
async def main():
    stop = stop_on_signals(timeout_s=0.5)
    print("up", flush=True)
    await stop.wait()
    {rest}
asyncio.run(main())
"""


@pytest.mark.parametrize("rest", ["time.sleep(600)", "await asyncio.sleep(600)"])
async def test_a_process_that_does_not_end_on_sigterm_is_ended_and_says_where_it_hung(
    rest: str,
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STUBBORN.format(rest=rest)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    assert await process.stdout.readline() == b"up\n"
    process.terminate()
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    assert process.returncode == DEADLINE_PASSED
    assert b"shutdown deadline passed" in said and b"<string>:" in said


async def test_an_unexpected_failure_shows_no_internals(endpoint: str) -> None:
    async with make_client(endpoint) as client:
        answer = await client.get("/bug")
    assert answer.status_code == 500
    assert "inner detail" not in answer.text


@pytest.mark.parametrize("chunked", [True, False])
async def test_an_oversize_body_gets_413(endpoint: str, chunked: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 100

    async with make_client(endpoint) as client:
        answer = await client.post("/echo", content=chunks() if chunked else b"x" * 3000)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_a_stream_is_read_event_by_event_and_cut_at_stop(endpoint: str) -> None:
    async with make_client(endpoint) as client, client.stream("GET", "/stream") as response:
        events = parse_events(response.aiter_bytes())
        got = [await anext(events) for _ in range(3)]
        await response.aclose()
    assert [event.id for event in got] == ["0", "1", "2"]
    assert got[0].data == '{"a": "line\\nbreak"}'


def test_a_taken_port_is_named_with_its_setting() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(StartupError, match=rf"{port}.*another program.*CHOIR_HTTP_PORT"):
            bind_tcp("127.0.0.1", port, "CHOIR_HTTP_PORT")


def test_a_port_that_is_none_is_refused_in_words() -> None:
    with pytest.raises(StartupError, match="from 0 to 65535. Correct CHOIR_HTTP_PORT"):
        bind_tcp("127.0.0.1", 65536, "CHOIR_HTTP_PORT")


def test_a_socket_path_that_is_too_long_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "choird.sock"
    with pytest.raises(StartupError, match="limit is 107.*shorter CHOIR_HOME"):
        bind_unix(path)
    assert not path.parent.exists()


def test_a_socket_stands_in_a_directory_of_its_owner_alone(tmp_path: Path) -> None:
    bind_unix(tmp_path / "d" / "x.sock").close()
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "d" / "x.sock").stat().st_mode & 0o777 == 0o600
