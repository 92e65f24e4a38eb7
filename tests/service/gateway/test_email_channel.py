"""The e-mail channel: whose mail is believed, what is read, and that nothing is lost or doubled."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.bus.client import Bus
from choir_common.errors import Unavailable
from choir_common.wire.messages import DmBinding, GatewayBinding
from choir_local.nats import EmbeddedNats
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table, running_control
from tests.service.gateway.mail_room import MailRoom
from tests.support.bus import BUS_KEY
from tests.support.mail import PASSWORD, USER, ImapServer, SmtpHandler, running_imap, running_smtp
from tests.support.mail_user import (
    ANN,
    AUTHSERV,
    PROVEN,
    MailUser,
    html_text,
    local_mailbox,
    plain_text,
    shared_certificate,
)
from tests.support.service_process import service_process

FAILED = f"{AUTHSERV}; dmarc=fail header.from=choir.test"


@pytest.fixture
async def imap() -> AsyncIterator[ImapServer]:
    async with running_imap(shared_certificate(), open_login=True) as server:
        yield server


@pytest.fixture
async def postman() -> AsyncIterator[SmtpHandler]:
    async with running_smtp(None, "none") as handler:
        yield handler


@pytest.fixture
def room(imap: ImapServer, postman: SmtpHandler, tmp_path: Path) -> MailRoom:
    return MailRoom(imap, postman, tmp_path)


async def test_a_forged_sender_never_reaches_the_agent(room: MailRoom) -> None:
    async with room.running():
        for results in ((), (FAILED,), (FAILED, PROVEN), ("mx.evil.test; dmarc=pass",)):
            room.ann.write("obey", results=results)
        room.ann.write("obey", headers={"From": f'"Ann {ANN}" <eve@choir.test>'})
        room.ann.write("obey", headers={"From": f"{ANN}, eve@choir.test"})
        room.ann.write("real")
        await room.until_accepted(1)
        assert room.texts() == ["real"] and room.postman.received == []
        async with asyncio.timeout(60):
            while room.imap.flags() != ["", "", "", "", "", "", "S"]:
                await asyncio.sleep(0.02)


async def test_a_proven_stranger_gets_one_code_and_nobody_else_an_answer(room: MailRoom) -> None:
    room.pairing = True
    eve, mallory = (MailUser(room.imap, room.postman, f"{it}@choir.test") for it in ("Eve", "mal"))
    async with room.running():
        refused: list[dict[str, str]] = [
            {"Auto-Submitted": "auto-replied"},
            {"Precedence": "bulk"},
            {"List-Id": "<list.choir.test>"},
            {"Return-Path": "<>"},
            {"To": "list@choir.test"},
            {"X-Spam-Flag": "YES"},
            {"From": f"Mal <mal@choir.test>, {ANN}"},
            {"From": "Mal <noreply@choir.test>"},
            {"In-Reply-To": f"<choir-note.{'0' * 32}@choir.test>"},
        ]
        for headers in refused:
            mallory.write("let me in", headers=headers)
        for results in ((), (FAILED,), (FAILED, PROVEN)):
            mallory.write("let me in", results=results)
        room.ann.write("forged", results=(FAILED,))
        for _ in range(2):
            eve.write("let me in, and tell me everything")
        await room.until_mailed(eve_lower := MailUser(room.imap, room.postman, "eve@choir.test"), 1)
        room.ann.write("hello")
        await room.until_accepted(1)
    (mail,) = eve_lower.inbox()
    assert "CODE1" in plain_text(mail) and mail["Auto-Submitted"] == "auto-generated"
    assert "everything" not in str(mail) and len(room.postman.received) == 1
    assert [(it.user_id, it.user_name) for it in room.control.strangers] == [
        ("eve@choir.test", "Ann")
    ]
    assert room.texts() == ["hello"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Auto-Submitted", "auto-replied"),
        ("Precedence", "bulk"),
        ("List-Id", "<list.choir.test>"),
        ("Return-Path", "<>"),
        ("From", USER),
    ],
)
async def test_automatic_mail_is_neither_a_message_nor_answered(
    name: str, value: str, room: MailRoom
) -> None:
    room.control.note = "Nobody answers now."
    async with room.running():
        room.ann.write("I am away.", headers={name: value})
        room.ann.write("I am here.", headers={"Auto-Submitted": "no"})
        await room.until_accepted(1)
        await room.until_mailed(room.ann, 1)
        assert room.texts() == ["I am here."]
        assert len(room.postman.received) == 1


async def test_accepted_mail_is_moved_where_that_is_configured(room: MailRoom) -> None:
    async with room.running(move_to="Done"):
        room.ann.write("hello")
        await room.until_accepted(1)
        async with asyncio.timeout(60):
            while room.imap.flags():
                await asyncio.sleep(0.02)


async def test_the_text_of_a_mail_is_what_the_user_wrote(room: MailRoom) -> None:
    long_history = "\n".join(f"> line {number}" for number in range(30))
    async with room.running():
        room.ann.write("at four?\n\n-- \nAnn\n", subject="Tea")
        room.ann.write("", subject="/status")
        room.ann.write("/status", subject="any")
        room.ann.write(f"Yes.\n\nOn Tue, main <{USER}> wrote:\n{long_history}", answers="<x@y>")
        room.ann.write("look\n\n> quoted by hand", subject="Fwd: news", answers="<x@y>")
        room.ann.write("three files", files={f"{it}.bin": b"x" for it in range(3)})
        await room.until_accepted(6)
    assert room.texts() == [
        "Subject: Tea\n\nat four?",
        "/status",
        "/status",
        "Yes.",
        "Subject: Fwd: news\n\nlook\n\n> quoted by hand",
        "three files",
    ]
    assert [it.name for it in room.control.accepted[-1].attachments] == ["0.bin", "1.bin", "2.bin"]


async def test_mail_without_plain_text_is_read_from_its_html(room: MailRoom) -> None:
    async with room.running():
        room.imap.deliver(
            f"Authentication-Results: {PROVEN}\nFrom: {ANN}\nMessage-ID: <h@choir.test>\n"
            "Content-Type: text/html; charset=utf-8\n\n"
            "<p>Grüße, <b>Ann</b></p><script>alert(1)</script>\n".encode()
        )
        await room.until_accepted(1)
    assert room.texts() == ["Grüße, Ann"]


async def test_mail_is_read_after_a_time_without_a_gateway_and_once(room: MailRoom) -> None:
    room.ann.write("before the first start")
    async with room.running():
        room.ann.write("one")
        await room.until_accepted(1)
        room.ann.write_again()
        room.imap.disconnect()
    room.ann.write("two")
    async with room.running():
        room.ann.write("three")
        await room.until_accepted(3)
    assert room.texts() == ["one", "two", "three"]


async def test_new_uids_of_the_server_neither_lose_nor_double_mail(room: MailRoom) -> None:
    async with room.running():
        room.ann.write("one")
        room.ann.write("two")
        await room.until_accepted(2)
    room.imap.renumber()
    room.ann.write("three")
    async with room.running():
        await room.until_accepted(3)
        room.ann.write("four")
        await room.until_accepted(4)
    assert room.texts() == ["one", "two", "three", "four"]


async def test_a_lost_connection_is_made_again(room: MailRoom) -> None:
    async with room.running():
        for number in range(3):
            room.imap.disconnect()
            room.ann.write(str(number))
            await room.until_accepted(number + 1)


async def test_a_server_without_idle_is_polled(postman: SmtpHandler, tmp_path: Path) -> None:
    async with running_imap(shared_certificate(), open_login=True, can_idle=False) as imap:
        room = MailRoom(imap, postman, tmp_path)
        async with room.running(poll_s=0.1):
            for number in range(2):
                room.ann.write(str(number))
                await room.until_accepted(number + 1)


async def test_a_mail_that_control_cannot_store_waits(room: MailRoom) -> None:
    room.control.is_away = True
    async with room.running():
        room.ann.write("one")
        room.ann.write("two")
        async with asyncio.timeout(60):
            while room.control.attempts < 2:
                await asyncio.sleep(0.02)
        assert room.imap.flags() == ["", ""]
    room.control.is_away = False
    async with room.running():
        await room.until_accepted(2)
    assert room.texts() == ["one", "two"]


async def test_a_wrong_password_is_named_and_not_tried_again_at_once(room: MailRoom) -> None:
    room.login = f"{USER}:wrong"
    channel = room.make_channel()
    running = asyncio.create_task(channel.run())
    async with asyncio.timeout(60):
        while "rejected" not in channel.state().detail:
            await asyncio.sleep(0.02)
    assert "choirctl secret set mail-login" in channel.state().detail
    with pytest.raises(Unavailable) as caught:
        await channel.deliver(room.say("hello"), ANN)
    assert (caught.value.retry_after_s or 0) >= 300 and "wrong" not in caught.value.message
    running.cancel()
    await asyncio.wait([running])
    async with asyncio.timeout(60):
        while "auth failed" not in room.imap.log.read_text():
            await asyncio.sleep(0.02)
    assert room.imap.log.read_text().count("auth failed") == 1


async def test_a_certificate_that_is_not_trusted_stops_the_login(
    postman: SmtpHandler, tmp_path: Path
) -> None:
    async with running_imap(shared_certificate()) as imap:
        room = MailRoom(imap, postman, tmp_path)
        channel = room.make_channel(imap_security="tls", imap_port=imap.imaps_port)
        running = asyncio.create_task(channel.run())
        async with asyncio.timeout(60):
            while "certificate" not in channel.state().detail:
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait([running])
        assert "Login:" not in imap.log.read_text()


async def test_the_thread_of_a_conversation_is_kept_and_can_be_erased(room: MailRoom) -> None:
    async with room.running() as channel:
        first = room.ann.write("What is the time?", subject="Clock")
        await room.until_accepted(1)
        receipt = await channel.deliver(room.say("**Four**."), ANN)
        (answer,) = room.ann.inbox()
        assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Clock", first)
        assert plain_text(answer) == "Four." and "<b>Four</b>" in html_text(answer)
        second = room.ann.write("Sure?", subject="Re: Clock", answers=str(answer["Message-ID"]))
        (_, sure) = await room.until_accepted(2)
        assert sure.reply_to is not None and sure.reply_to.message_id == receipt.message_id
        assert sure.text == "Sure?"
    async with room.running() as channel:
        await channel.deliver(room.say("Yes."), ANN)
        yes = room.ann.inbox()[-1]
        assert yes["References"].split()[-1] == yes["In-Reply-To"] == second
        await channel.deliver(room.say("Done: backup", kind="report", answers=None), ANN)
        assert room.ann.inbox()[-1]["Subject"] == "Done: backup"
        assert await room.spool.erase_dm("ann") == 1
        await channel.deliver(room.say("Hello."), ANN)
        assert room.ann.inbox()[-1]["In-Reply-To"] is None


@pytest.fixture
async def mail_control(
    nats: EmbeddedNats, imap: ImapServer, postman: SmtpHandler
) -> AsyncIterator[ControlStandIn]:
    table = channel_table(
        GatewayBinding(
            name="mail",
            type="email",
            secret="login",
            api_url=None,
            email=local_mailbox(imap, postman),
        ),
        DmBinding(name="ann", gateway="mail", user_id=ANN, admin=True),
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


async def test_a_gateway_killed_between_fetch_and_store_loses_nothing(
    nats: EmbeddedNats, mail_control: ControlStandIn, imap: ImapServer, postman: SmtpHandler
) -> None:
    ann = MailUser(imap, postman)
    async with service_process("choir_gateway", nats.url) as gateway:
        gateway.secrets = {"secrets": {"login": f"{USER}:{PASSWORD}"}}
        await gateway.start()
        await _until_marked(gateway.home)
        mail_control.refusals = [Unavailable()] * 1_000
        ann.write("one")
        async with asyncio.timeout(60):
            while len(mail_control.refusals) == 1_000:
                await asyncio.sleep(0.02)
        await gateway.kill()
        assert imap.flags() == [""]
        mail_control.refusals = []
        ann.write("two")
        await gateway.start()
        async with asyncio.timeout(60):
            while len(mail_control.inbox) < 2:
                await asyncio.sleep(0.02)
        assert [message.text for message in mail_control.inbox.values()] == ["one", "two"]
        receipt = await mail_control.say("ann", "hello")
        assert (receipt.status, plain_text(ann.inbox()[-1])) == ("delivered", "hello")
        assert await gateway.stop() == 0, gateway.log
        assert PASSWORD not in gateway.log


async def _until_marked(home: Path) -> None:
    """Wait until the gateway has marked the end of the mailbox; earlier mail is not read."""
    async with asyncio.timeout(60):
        while not list(home.rglob("email/mail.json")):
            await asyncio.sleep(0.02)


def test_the_libraries_are_not_loaded_without_a_mailbox() -> None:
    code = (
        "import sys, choir_gateway.app; "
        "print([it for it in ('imap_tools', 'aiosmtplib') if it in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
