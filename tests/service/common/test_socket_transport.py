"""HTTP over sockets as Choir speaks it: every form of answer, and every way a server fails."""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from choir_common.http import socket_transport
from choir_common.http.client import make_client, ssl_context_for
from choir_common.http.socket_transport import TcpTransport, UnixTransport
from tests.support.keyed_server import running_keyed_server

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def served(handler: Handler, timeout_s: float = 60) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve raw bytes on a socket and lend a client for it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    with tempfile.TemporaryDirectory(prefix="choir-u-") as name:
        path = Path(name) / "s"
        server = await asyncio.start_unix_server(handle, path)
        client = make_client(f"unix://{path}", timeout_s=timeout_s, unix_transport=UnixTransport)
        try:
            yield client
        finally:
            await client.aclose()
            server.close()
            await server.wait_closed()


async def take_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return head, await reader.readexactly(length)


def answering(*answers: bytes) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await take_request(reader)
            writer.write(answer)

    return handler


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
    ],
)
async def test_answers_of_every_form_are_read(answer: bytes) -> None:
    async with served(answering(answer)) as client:
        assert (await client.post("/x", content=b"body")).text == "ok"


async def test_a_body_in_parts_is_sent_whole() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await take_request(reader)
        assert b"transfer-encoding" not in head.lower()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with served(echo) as client:
        assert (await client.post("/x", content=parts())).text == "onetwo"


async def test_a_header_with_a_line_break_is_refused() -> None:
    async with served(answering(OK)) as client:
        with pytest.raises(httpx2.LocalProtocolError):
            await client.post("/x", headers={"Authorization": "Bearer a\r\nX-Other: b"})


async def test_tcp_reuses_connections_for_each_server_alone() -> None:
    connections: list[int] = []

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("sockname")[1])
        with contextlib.suppress(asyncio.IncompleteReadError):
            await answering(OK, OK)(reader, writer)
        writer.close()

    async with httpx2.AsyncClient(transport=TcpTransport()) as client:
        servers = [await asyncio.start_server(twice, "127.0.0.1", 0) for _ in range(2)]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        for port in ports * 2:
            assert (await client.post(f"http://127.0.0.1:{port}/x")).text == "ok"
        for server in servers:
            server.close()
        assert connections == ports
        with pytest.raises(httpx2.ConnectError, match=str(ports[0])):
            await client.post(f"http://127.0.0.1:{ports[0]}/x")
            await client.post(f"http://127.0.0.1:{ports[0]}/x")


async def test_tls_verifies_the_server(tmp_path: Path) -> None:
    async with running_keyed_server(tmp_path) as server:
        trusting = TcpTransport(ssl_context_for(server.certificate.read_text()))
        async with httpx2.AsyncClient(transport=trusting) as client:
            answer = await client.get(f"{server.origin}/v1/models", headers={"X-Api-Key": "k"})
            assert answer.status_code == 200
        async with httpx2.AsyncClient(
            transport=TcpTransport(ssl.create_default_context())
        ) as other:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await other.get(f"{server.origin}/v1/models")


async def test_an_answer_that_comes_byte_by_byte_is_read() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        for byte in OK:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async with served(slowly) as client:
        assert (await client.post("/x")).text == "ok"


async def test_large_bodies_go_both_ways() -> None:
    large = b"x" * 3_000_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await take_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async with served(echo) as client:
        assert (await client.post("/x", content=large)).content == large


async def test_a_connection_is_used_again_and_a_closed_one_is_not() -> None:
    connections = 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await answering(OK, OK)(reader, writer)

    async with served(twice) as client:
        for _ in range(5):
            assert (await client.post("/x")).text == "ok"
            await asyncio.sleep(0.01)
    assert connections == 3


async def test_connections_that_nobody_needs_any_more_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_transport, "IDLE_S", 0.0)
    connected, closed = asyncio.Barrier(2), asyncio.Event()

    async def together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        await connected.wait()
        writer.write(OK)
        await reader.read()
        closed.set()

    async with served(together) as client:
        await asyncio.gather(client.post("/x"), client.post("/x"))
        async with asyncio.timeout(60):
            await closed.wait()


async def test_requests_at_the_same_time_do_not_mix() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await take_request(reader)
            await asyncio.sleep(0.01)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async with served(echo) as client:
        bodies = [str(number).encode() for number in range(20)]
        answers = await asyncio.gather(*(client.post("/x", content=body) for body in bodies))
    assert [answer.content for answer in answers] == bodies


async def test_headers_arrive_and_the_status_is_kept() -> None:
    seen: list[bytes] = []

    async def look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await take_request(reader)
        seen.append(head.lower())
        writer.write(b"HTTP/1.1 409 Conflict\r\nX-A: b\r\nContent-Length: 0\r\n\r\n")

    async with served(look) as client:
        answer = await client.post("/rpc/X?a=b", headers={"X-Choir": "yes"})
    assert seen[0].startswith(b"post /rpc/x?a=b http/1.1\r\n")
    assert b"\r\nx-choir: yes\r\n" in seen[0]
    assert b"\r\nhost: choir\r\n" in seen[0]
    assert (answer.status_code, answer.headers["x-a"]) == (409, "b")


async def test_a_stream_yields_what_comes_when_it_comes() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"3\r\none\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with served(endless) as client, client.stream("GET", "/events") as response:
        chunks = []
        async for chunk in response.aiter_raw():
            chunks.append(chunk)
            if len(chunks) == 3:
                break
    assert chunks == [b"one"] * 3


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await take_request(reader)
    await reader.read()


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (answering(b""), httpx2.RemoteProtocolError),
        (answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), httpx2.RemoteProtocolError),
        (answering(b"not http at all\r\n\r\n"), httpx2.RemoteProtocolError),
        (hang, httpx2.ReadTimeout),
    ],
    ids=["hung up", "half an answer", "no http", "silence"],
)
async def test_failures_are_the_errors_that_httpx2_has_for_them(
    handler: Handler, error: type[Exception]
) -> None:
    async with served(handler, 0.5 if handler is hang else 60) as client:
        with pytest.raises(error):
            await client.post("/x")


async def test_a_socket_that_is_not_there_is_a_connect_error() -> None:
    client = make_client("unix:///tmp/choir-nowhere/s", unix_transport=UnixTransport)
    with pytest.raises(httpx2.ConnectError):
        await client.post("/x")
    await client.aclose()


async def test_a_cancelled_request_leaves_no_connection_that_answers_the_next_one() -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await take_request(reader)
            asked.set()
            await cancelled.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + body)

    async with served(late) as client:
        first = asyncio.create_task(client.post("/x", content=b"1"))
        await asyncio.wait_for(asked.wait(), 60)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        cancelled.set()
        await asyncio.sleep(0.1)
        assert (await client.post("/x", content=b"2")).text == "2"
