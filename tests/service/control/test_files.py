"""Files of users reach the workspace before the agent hears of them; those of agents leave by the spool."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse

from choir_common.clients.control import HttpOutboxFilesClient, NatsControlClient
from choir_common.errors import ChoirError, NotFound, Unavailable
from choir_common.http.client import make_client
from choir_common.http.listen import bind_unix, serve
from choir_common.http.responses import problem_response
from choir_common.wire.attachments import Attachment, SentFile
from choir_common.wire.events import Reply
from choir_common.wire.rpc import ResourceBindings
from choir_common.wire.signals import CancelSignal, ConfigChangedSignal, Signal, UserMessageSignal
from choir_control.log.leases.store import Lease
from choir_control.log.signals.store import SignalStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import serve as serve_conversations
from tests.service.control.world import OPERATOR_TOKEN, World, a_message, until


@dataclass
class GatewayDoor:
    """The gateway's door for files."""

    files: dict[str, bytes] = field(default_factory=dict)
    failures: list[ChoirError] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    closed: dict[str, asyncio.Event] = field(default_factory=dict)
    """Files that are served when their event is set."""

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/v1/files/{gateway}", response_model=None)
        async def read(gateway: str, ref: str) -> Response:
            self.asked.append(ref)
            if ref in self.closed:
                await self.closed[ref].wait()
            if self.failures:
                return problem_response(self.failures.pop(0))
            if ref not in self.files:
                return problem_response(NotFound("Telegram does not have it any more."))
            return StreamingResponse(_pieces(self.files[ref]))

        return app


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 50_000):
        yield content[start : start + 50_000]


@pytest.fixture
async def door(world: World) -> AsyncIterator[GatewayDoor]:
    made, stop = GatewayDoor(), asyncio.Event()
    listener = bind_unix(Path(world.home / "socks" / "gateway.sock"))
    server = asyncio.create_task(serve(made.app(), [listener], stop))
    yield made
    stop.set()
    await server


def a_file(ref: str, name: str = "cat.jpg", size: int | None = None) -> Attachment:
    return Attachment(name=name, kind="photo", mime="image/jpeg", size=size, ref=ref)


def workspace(world: World) -> Path:
    return world.home / "workspaces/main"


async def test_a_users_file_is_in_the_workspace_when_the_agent_hears_of_it(
    world: World, agent: AgentHand, door: GatewayDoor
) -> None:
    door.files["f1"] = b"\xff\xd8" + b"x" * 200_000
    door.failures = [Unavailable("a moment")]
    message = a_message("", "1", attachments=(a_file("f1", "../../etc/my cat.jpg"),))
    await NatsControlClient(world.bus).accept(message)
    heard = await agent.next_message()
    [file] = heard.attachments
    assert file.path.startswith(".choirtmp/recv/") and file.path.endswith("-1-my_cat.jpg")
    assert (workspace(world) / file.path).read_bytes() == door.files["f1"]
    assert (file.kind, file.size, file.problem) == ("photo", 200_002, "")
    # offered again, it is not fetched again
    assert (await agent.next_message()).attachments == (file,)
    assert door.asked == ["f1", "f1"]


async def test_a_file_that_cannot_be_had_is_said_and_holds_nothing_up(
    world: World, agent: AgentHand, door: GatewayDoor
) -> None:
    door.files["there"] = b"here"
    files = (a_file("gone"), a_file("big", size=30_000_000), a_file("there", "a.txt"))
    await NatsControlClient(world.bus).accept(a_message("look", "1", attachments=files))
    heard = await agent.next_message()
    gone, big, there = heard.attachments
    assert gone.path == "" and "does not have it any more" in gone.problem
    assert big.path == "" and "20 MB" in big.problem
    assert (workspace(world) / there.path).read_bytes() == b"here"


@pytest.mark.parametrize("reopens", [False, True])
async def test_while_files_are_fetched_only_their_conversation_waits(
    world: World, agent: AgentHand, door: GatewayDoor, reopens: bool
) -> None:
    await serve_conversations(world, "second")
    session = await world.control.services.sessions.store.get(agent.spec.session_id)
    assert session is not None
    control, sender = NatsControlClient(world.bus), world.control.services.sessions.signal_sender
    door.files, door.closed["f1"] = {"f1": b"first", "f2": b"second"}, asyncio.Event()
    for number in (1, 2):
        message = a_message(f"{number}", f"{number}", "second", attachments=(a_file(f"f{number}"),))
        await control.accept(message)
    await control.accept(a_message("3", "3", "second"))
    await sender.send(session, CancelSignal(dm="second"))
    await control.accept(a_message("at home", "4"))
    seen: list[Signal] = []

    async def read(count: int) -> None:
        after = seen[-1].seq if seen else None
        async with asyncio.timeout(60), agent.signals(after) as stream:
            while len(seen) < count:
                signal = await anext(stream)
                if not isinstance(signal.body, ConfigChangedSignal):
                    seen.append(signal)
                if len(seen) == 1 and not reopens:
                    door.closed["f1"].set()

    if reopens:
        # the stream has passed by the others, and ends before their files are there
        await read(1)
        door.closed["f1"].set()
    await read(5)
    bodies = [signal.body for signal in seen]
    texts = [body.text for body in bodies if isinstance(body, UserMessageSignal)]
    assert texts == ["at home", "1", "2", "3"]
    assert isinstance(bodies[-1], CancelSignal)
    assert [len(body.attachments) for body in bodies if isinstance(body, UserMessageSignal)] == [
        *(0, 1, 1, 0)
    ]
    assert sorted({*door.asked}) == ["f1", "f2"]


async def test_what_waited_for_a_message_that_was_erased_meanwhile_comes_when_the_stream_opens_again(
    world: World, agent: AgentHand, door: GatewayDoor
) -> None:
    await serve_conversations(world, "second")
    session = await world.control.services.sessions.store.get(agent.spec.session_id)
    assert session is not None
    control, sender = NatsControlClient(world.bus), world.control.services.sessions.signal_sender
    door.closed["f1"] = asyncio.Event()
    await control.accept(a_message("1", "1", "second", attachments=(a_file("f1"),)))
    await control.accept(a_message("2", "2", "second"))
    await sender.send(session, CancelSignal(dm="second"))
    await control.accept(a_message("at home", "3"))
    seen: list[Signal] = []

    async def read(count: int) -> None:
        after = seen[-1].seq if seen else None
        async with asyncio.timeout(60), agent.signals(after) as stream:
            while len(seen) < count:
                signal = await anext(stream)
                if not isinstance(signal.body, ConfigChangedSignal):
                    seen.append(signal)

    await read(1)
    # as after a death of control, nobody is left who knows that the others waited
    await world.database.execute("DELETE FROM choir_control.signals WHERE body ->> 'text' = '1'")
    await control.accept(a_message("at home again", "4"))
    await read(4)
    # another stream, which overlaps with this one, learns of the erasure later
    bindings = ResourceBindings(workspace="main", llm="m", dm="console")
    lease = Lease(agent.spec.session_id, "main", 1, b"", bindings)
    await SignalStore(world.database).renumber(lease, "second", 1)
    # a stream that opens once more repeats nothing
    await control.accept(a_message("3", "5", "second"))
    await read(5)
    texts = [it.body.text for it in seen if isinstance(it.body, UserMessageSignal)]
    assert sorted(texts[:3]) == ["2", "at home", "at home again"]
    assert texts[3:] == ["3"] and isinstance(seen[3].body, CancelSignal | UserMessageSignal)


async def test_no_file_follows_a_link_that_the_agent_has_laid(
    world: World, agent: AgentHand, door: GatewayDoor
) -> None:
    outside = world.home / "outside"
    outside.mkdir()
    (workspace(world) / ".choirtmp").mkdir(parents=True, exist_ok=True)
    (workspace(world) / ".choirtmp/recv").symlink_to(outside)
    door.files["f1"] = b"content"
    await NatsControlClient(world.bus).accept(a_message("", "1", attachments=(a_file("f1"),)))
    [file] = (await agent.next_message()).attachments
    assert file.path == "" and "cannot be used" in file.problem
    assert list(outside.iterdir()) == []


async def test_an_edit_says_what_it_corrects_and_a_reply_what_it_quotes(
    world: World, agent: AgentHand
) -> None:
    control = NatsControlClient(world.bus)
    await control.accept(a_message("at four", "1", message_id="77"))
    await control.accept(a_message("at five", "2", edits="77"))
    await control.accept(a_message("at six", "3", edits="77", quoted="When?"))
    async with agent.signals() as stream:
        heard = [(await anext(stream)).body for _ in range(3)]
    assert [m.edits for m in heard] == [None, "77", "77"]  # type: ignore[union-attr]
    assert [m.corrects for m in heard] == ["", "at four", "at five"]  # type: ignore[union-attr]
    assert heard[2].reply_to == "When?"  # type: ignore[union-attr]


async def test_a_message_says_when_it_was_sent(world: World, agent: AgentHand) -> None:
    message = a_message("hello", "1")
    await NatsControlClient(world.bus).accept(message)
    assert (await agent.next_message()).sent_at == message.sent_at


def sends(world: World, agent: AgentHand, content: bytes, name: str = "report.pdf") -> SentFile:
    """Lay a file into `send/` and say in the agent's log that it is sent."""
    path = workspace(world) / ".choirtmp/send" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    file = SentFile(path=f".choirtmp/send/{name}", name=name, kind="document")
    reply = Reply(turn_id=None, dm="console", text="Here.", kind="notice", attachments=(file,))
    agent.add(reply)
    return file


async def test_what_is_sent_is_what_it_was_when_it_was_said(world: World, agent: AgentHand) -> None:
    world.gateway.fail_with = [Unavailable("not yet")]
    file = sends(world, agent, b"first" * 50_000)
    await agent.flush()
    (workspace(world) / file.path).write_bytes(b"second")
    await world.delivered(1)
    message = world.gateway.delivered[0]
    [attachment] = message.attachments
    assert (attachment.name, attachment.size, attachment.ref) == ("report.pdf", 250_000, "0")
    headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    async with make_client(world.endpoint, headers=headers) as client:
        door = HttpOutboxFilesClient(client)
        async with door.open(message.outbox_id, attachment.ref) as pieces:
            assert b"".join([piece async for piece in pieces]) == b"first" * 50_000
        with pytest.raises(NotFound):
            async with door.open(message.outbox_id, "1"):
                pass

    async def cleared() -> bool:
        return not (workspace(world) / file.path).exists()

    await until(cleared)
    spooled = [path for path in (world.home / "spool").rglob("*") if path.is_file()]
    assert [path.stat().st_mode & 0o777 for path in spooled] == [0o600]


async def test_a_file_that_cannot_be_sent_is_said_and_leads_nowhere(
    world: World, agent: AgentHand
) -> None:
    secret = world.home / "secrets.json"
    secret.write_text("top secret")
    send = workspace(world) / ".choirtmp/send"
    send.mkdir(parents=True, exist_ok=True)
    (send / "link").symlink_to(secret)
    paths = (".choirtmp/send/link", ".choirtmp/send/../../../secrets.json", "notes.txt")
    files = tuple(SentFile(path=path, name=path[-9:], kind="document") for path in paths)
    agent.add(Reply(turn_id=None, dm="console", text="", kind="notice", attachments=files))
    await agent.flush()
    [text] = await world.delivered(1)
    assert text.count("could not be sent") == 3
    assert world.gateway.delivered[0].attachments == ()
    assert not list((world.home / "spool").rglob("*")) and secret.read_text() == "top secret"


async def move_clock(world: World, by: str) -> None:
    """Let time pass for all that was received and answered."""
    await world.database.execute(
        "UPDATE choir_control.session_events SET stored_at = stored_at - $1::text::interval", by
    )


async def test_a_file_stays_a_day_after_its_answer_and_one_without_an_answer_stays(
    world: World, agent: AgentHand, door: GatewayDoor
) -> None:
    assert world.control is not None
    door.files = {"f1": b"one", "f2": b"two"}
    control, recv = NatsControlClient(world.bus), workspace(world) / ".choirtmp/recv"
    await control.accept(a_message("", "1", attachments=(a_file("f1", "one.txt"),)))
    first = await agent.next_message()
    await agent.take_up(first)
    await agent.reply("seen", answers=first.inbox_id)
    await control.accept(a_message("", "2", attachments=(a_file("f2", "two.txt"),)))
    second = await agent.next_message()
    await agent.take_up(second)
    # what a choird was writing when it died, and what is being written now
    (recv / ".choir-old").touch()
    (recv / ".choir-new").touch()
    os.utime(recv / ".choir-old", (0, 0))

    paths = {file.path for heard in (first, second) for file in heard.attachments}
    here = {workspace(world) / path for path in paths}
    await move_clock(world, "23 hours 58 minutes")
    await world.control.services.conversations.tidy()
    assert set(recv.iterdir()) == {*here, recv / ".choir-new"}
    await move_clock(world, "3 minutes")
    await world.control.services.conversations.tidy()
    [left] = set(recv.iterdir()) - {recv / ".choir-new"}
    assert left.read_bytes() == b"two", "it is not answered yet"
    await agent.reply("seen too", answers=second.inbox_id)
    await move_clock(world, "25 hours")
    await world.control.services.conversations.tidy()
    assert list(recv.iterdir()) == [recv / ".choir-new"]
    kept = await world.database.fetchval("SELECT count(*) FROM choir_control.received_files")
    assert kept == 0


async def test_copies_of_what_was_sent_go_after_a_day_and_not_before_they_are_sent(
    world: World, agent: AgentHand
) -> None:
    assert world.control is not None
    spool = world.home / "spool/outbox"
    sends(world, agent, b"one", "one.pdf")
    await agent.flush()
    await world.delivered(1)

    async def finished() -> bool:
        return not (workspace(world) / ".choirtmp/send/one.pdf").exists()

    await until(finished)
    world.gateway.delay_s = 30
    sends(world, agent, b"two", "two.pdf")
    await agent.flush()
    await world.control.services.conversations.tidy()
    assert len(list(spool.iterdir())) == 2
    for copy in spool.iterdir():
        os.utime(copy, (0, 0))
    await world.control.services.conversations.tidy()
    [left] = spool.iterdir()
    assert (left / "0").read_bytes() == b"two", "it waits for its channel"
