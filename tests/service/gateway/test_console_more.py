"""Files, buttons, cards and edits at the console: the gateway as a process, control's stand-ins behind it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response

from choir_common.bus.client import Bus
from choir_common.clients.gateway import HttpGatewayFilesClient
from choir_common.errors import NotFound, Unavailable
from choir_common.http.client import make_client
from choir_common.http.listen import bind_unix, serve
from choir_common.http.response_parser import parse_events
from choir_common.http.responses import problem_response
from choir_common.wire.activity import Card, Idle, Typing
from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import DmBinding, EditTarget, OutboundMessage
from choir_local.nats import EmbeddedNats
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table, running_control
from tests.support.bus import BUS_KEY
from tests.support.service_process import ServiceProcess, service_process

DM, OTHER = "/v1/dms/console", "/v1/dms/second"
TOKEN = "operators-own-token"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
MEGABYTE = 1_000_000
PICTURE = b"\x89PNG" + bytes(range(256)) * 700


@pytest.fixture
async def control(nats: EmbeddedNats) -> AsyncIterator[ControlStandIn]:
    table = channel_table(
        DmBinding(name="second", gateway="console", user_id="another", admin=False)
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


class ControlsFiles:
    """Control's door for the files of its outbox."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.app = FastAPI()
        self.app.add_api_route("/v1/outbox/{number}/files/{ref}", self.get, methods=["GET"])

    async def get(self, number: int, ref: str, request: Request) -> Response:
        self.asked.append(request.headers.get("authorization", ""))
        found = self.held.get(f"{number}/{ref}")
        if found is None:
            return problem_response(NotFound())
        return Response(found)


@contextlib.asynccontextmanager
async def doors_of(files: ControlsFiles, process: ServiceProcess) -> AsyncIterator[None]:
    """Open control's door in the gateway's home, until the block ends."""
    stop = asyncio.Event()
    listener = bind_unix(process.home / "socks" / "choird.sock")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(files.app, [listener], stop))
        try:
            yield
        finally:
            stop.set()


@pytest.fixture
async def gateway(nats: EmbeddedNats, control: ControlStandIn) -> AsyncIterator[ServiceProcess]:
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"gateway_token": TOKEN}
        process.env = {"CHOIR_CONSOLE_FILE_MB": "1", "CHOIR_CONSOLE_FILES_MB": "2"}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log


@pytest.fixture
async def files(gateway: ServiceProcess) -> AsyncIterator[ControlsFiles]:
    made = ControlsFiles()
    async with doors_of(made, gateway):
        yield made


@pytest.fixture
async def client(gateway: ServiceProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_client(gateway.endpoint) as made:
        yield made


async def put(client: httpx2.AsyncClient, name: str, content: bytes, dm: str = DM) -> Attachment:
    answer = await client.put(f"{dm}/files", params={"name": name}, content=content)
    assert answer.status_code == 201, answer.text
    return Attachment.model_validate_json(answer.content)


async def fetched(client: httpx2.AsyncClient, ref: str) -> bytes:
    """Fetch a file as control does."""
    async with HttpGatewayFilesClient(client).open("console", ref) as pieces:
        return b"".join([piece async for piece in pieces])


def with_picture(control: ControlStandIn, *more: Attachment) -> OutboundMessage:
    picture = Attachment(name="a b.png", kind="photo", mime="image/png", size=len(PICTURE), ref="0")
    message = control.keep("console", "look").model_copy(update={"attachments": (picture, *more)})
    control.outbox[-1] = message
    return message


async def test_a_file_that_is_sent_is_had_by_control_with_the_message(
    gateway: ServiceProcess, client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    put_there = await put(client, "../no te.png", PICTURE)
    assert (put_there.kind, put_there.size) == ("photo", len(PICTURE))
    said = {"text": "", "files": [put_there.ref], "idempotency_key": "k"}
    for _ in range(2):
        assert (await client.post(f"{DM}/messages", json=said)).status_code == 202
    (stored,) = control.inbox.values()
    assert stored.attachments == (put_there,)
    await gateway.kill()
    await gateway.start()
    async with make_client(gateway.endpoint, headers=SHOWN) as controls:
        assert await fetched(controls, put_there.ref) == PICTURE
        for ref in ("", "console/0", "../secrets.json", f"console/{'0' * 32}", "console/../x"):
            answer = await controls.get("/v1/files/console", params={"ref": ref})
            assert answer.status_code in (400, 404), ref


async def test_only_control_is_given_what_users_sent(
    client: httpx2.AsyncClient,
) -> None:
    ref = (await put(client, "a.txt", b"secret")).ref
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = await client.get("/v1/files/console", params={"ref": ref}, headers=headers)
        assert answer.status_code == 401 and b"secret" not in answer.content


async def test_a_file_belongs_to_the_conversation_it_was_put_in(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    ref = (await put(client, "a.txt", b"x")).ref
    for dm, said in ((OTHER, ref), (DM, "console/" + "0" * 32), (DM, "../../x"), (DM, "")):
        answer = await client.post(f"{dm}/messages", json={"text": "", "files": [said]})
        assert answer.status_code == 404, said
    assert control.inbox == {}


async def test_a_file_too_large_and_a_full_spool_are_refused_and_leave_nothing(
    gateway: ServiceProcess, client: httpx2.AsyncClient
) -> None:
    async def without_length(size: int) -> AsyncIterator[bytes]:
        for _ in range(size // 1000):
            yield b"x" * 1000

    for content in (b"x" * (MEGABYTE + 1), without_length(MEGABYTE + 1000)):
        with contextlib.suppress(httpx2.WriteError):
            answer = await client.put(f"{DM}/files", params={"name": "a"}, content=content)
            assert answer.status_code == 413
    spool = gateway.home / "spool" / "console"
    assert not [path for path in spool.rglob("*") if path.is_file()]
    await put(client, "a", b"x" * 900_000)
    await put(client, "b", b"x" * 900_000)
    answer = await client.put(f"{DM}/files", params={"name": "c"}, content=b"x" * 900_000)
    assert answer.status_code == 503 and "storage is full" in answer.text
    kept = [path for path in spool.rglob("*") if path.is_file()]
    assert len(kept) == 4 and {path.stat().st_mode & 0o777 for path in kept} == {0o600}


async def test_what_an_agent_sends_is_here_once_the_delivery_is_done(
    client: httpx2.AsyncClient, control: ControlStandIn, files: ControlsFiles
) -> None:
    message = with_picture(control)
    files.held[f"{message.outbox_id}/0"] = PICTURE
    for _ in range(2):
        receipt = await control.deliver(message)
        assert (receipt.status, receipt.message_id) == ("delivered", str(message.outbox_id))
    assert files.asked == [f"Bearer {TOKEN}"]
    files.held.clear()
    where = f"/messages/{message.outbox_id}/files"
    answer = await client.get(f"{DM}{where}/0")
    assert answer.content == PICTURE and "a%20b.png" in answer.headers["content-disposition"]
    for path in (f"{OTHER}{where}/0", f"{DM}{where}/1", f"{DM}/messages/99/files/0"):
        assert (await client.get(path)).status_code == 404, path


async def test_a_file_that_control_has_no_more_does_not_hold_its_message_up(
    client: httpx2.AsyncClient, control: ControlStandIn, files: ControlsFiles
) -> None:
    receipt = await control.deliver(with_picture(control))
    assert receipt.status == "delivered" and "a b.png" in receipt.detail
    assert (await client.get(f"{DM}/messages/1/files/0")).status_code == 404


async def test_a_delivery_waits_for_a_control_that_is_away(
    gateway: ServiceProcess, client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    message = with_picture(control)
    with pytest.raises(Unavailable):
        await control.deliver(message)
    late = ControlsFiles()
    late.held[f"{message.outbox_id}/0"] = PICTURE
    async with doors_of(late, gateway):
        assert (await control.deliver(message)).status == "delivered"


async def test_a_press_says_who_pressed_and_brings_the_answer(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    body = {"data": "a:nonce:y", "message_id": "7", "idempotency_key": "k"}
    answer = await client.post(f"{OTHER}/press", json=body)
    assert answer.json() == {"answer": "pressed a:nonce:y"}
    (press,) = control.presses
    assert (press.gateway, press.user_id, press.chat_id) == ("console", "another", "another")
    assert (press.data, press.message_id, press.callback_id) == ("a:nonce:y", "7", "second:k")
    for bad in ({}, {"data": ""}, {"data": "x" * 65}, {"data": "x", "user_id": "operator"}):
        assert (await client.post(f"{DM}/press", json=bad)).status_code == 400
    assert (await client.post("/v1/dms/nobody/press", json=body)).status_code == 404


async def test_an_edit_and_a_reply_name_what_they_are_about(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    quoted = {"message_id": "3", "text": "which one?"}
    said = {"text": "the blue one", "edits": "key-1", "reply_to": quoted}
    assert (await client.post(f"{DM}/messages", json=said)).status_code == 202
    (stored,) = control.inbox.values()
    assert stored.edits == "key-1" and stored.reply_to is not None
    assert stored.reply_to.text == "which one?"


class Stream:
    """An open event stream."""

    def __init__(self, response: httpx2.Response) -> None:
        self._events = parse_events(response.aiter_bytes())

    async def next(self) -> tuple[str, str, dict[str, object]]:
        async with asyncio.timeout(60):
            event = await anext(self._events)
        return event.id, event.event, json.loads(event.data)


async def test_what_goes_on_is_shown_and_an_open_card_to_whoever_comes_later(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    async def show(what: Typing | Idle | Card) -> None:
        await control.show("console", what)

    async with client.stream("GET", f"{DM}/events") as response:
        stream = Stream(response)
        await show(Typing())
        assert (await stream.next())[:2] == ("", "activity")
        await show(Card(card_id="job-1", text="reading", done=False))
        number, kind, card = await stream.next()
        assert (number, kind, card["text"]) == ("", "card", "reading")
        async with client.stream("GET", f"{DM}/events") as later:
            assert (await Stream(later).next())[2]["card_id"] == "job-1"
        await show(Card(card_id="job-1", text="read", done=True))
        assert (await stream.next())[2]["done"] is True
        async with client.stream("GET", f"{DM}/events") as latest:
            await show(Idle())
            assert (await Stream(latest).next())[2]["kind"] == "idle"
        async with client.stream("GET", f"{OTHER}/events") as others:
            await control.say("second", "for you")
            assert (await Stream(others).next())[1] == "message"


async def test_an_edit_is_told_as_one_and_buttons_come_with_the_words(
    client: httpx2.AsyncClient, control: ControlStandIn
) -> None:
    asked = control.keep("console", "May I?").model_copy(
        update={"buttons": (Button(label="Approve", data="a:n:y"),)}
    )
    decided = control.keep("console", "Approved.").model_copy(
        update={"edits": EditTarget(outbox_id=asked.outbox_id, message_id="1")}
    )
    control.outbox[:] = [asked, decided]
    async with client.stream("GET", f"{DM}/events", headers={"Last-Event-ID": "0"}) as response:
        stream = Stream(response)
        number, kind, message = await stream.next()
        assert (number, kind) == ("1", "message")
        assert message["buttons"] == [{"label": "Approve", "data": "a:n:y"}]
        number, kind, message = await stream.next()
        assert (number, kind, message["text"]) == ("2", "edit", "Approved.")


async def test_a_gateway_that_is_no_console_gives_out_no_file_of_one(
    gateway: ServiceProcess, client: httpx2.AsyncClient
) -> None:
    ref = (await put(client, "a.txt", b"x")).ref
    async with make_client(gateway.endpoint, headers=SHOWN) as controls:
        with pytest.raises(NotFound):
            async with HttpGatewayFilesClient(controls).open("bot-main", ref):
                raise AssertionError("there is no such gateway")
