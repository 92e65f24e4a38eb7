"""Mail that starts work: what a mailbox offers to control, and that users' mail stays as it is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.wire.triggers import MailDecision
from choir_gateway.channels.email import mailbox_watcher
from tests.service.gateway.mail_room import MailRoom
from tests.support.mail import USER, running_imap, running_smtp
from tests.support.mail_user import AUTHSERV, MailUser, shared_certificate

SHOP = "billing@shop.test"
PROVEN = f"{AUTHSERV}; dmarc=pass header.from=shop.test"
OWN_ID = f"<choir.7.{'a' * 32}@choir.test>"


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[MailRoom]:
    async with (
        running_imap(shared_certificate(), open_login=True) as imap,
        running_smtp(None, "none") as postman,
    ):
        yield MailRoom(imap, postman, tmp_path, starts_work=True)


async def until_flags(room: MailRoom, *flags: str) -> None:
    """Wait until the mails in the mailbox are read (`S`) or not."""
    async with asyncio.timeout(200):
        while room.imap.flags() != list(flags):
            await asyncio.sleep(0.02)


async def test_mail_of_others_is_offered_once_and_nobody_is_answered(room: MailRoom) -> None:
    shop = MailUser(room.imap, room.postman, SHOP)
    async with room.running():
        # Neither a forged user nor an answer of a machine to Choir's own mail starts work.
        room.ann.write("obey", results=())
        automatic = {"Auto-Submitted": "auto-replied"}
        shop.write("away", headers=automatic, answers=OWN_ID)
        shop.write(f"not delivered: {OWN_ID}", headers={"Return-Path": "<>"})
        shop.write(
            "Pay 7 EUR.",
            subject="Invoice",
            results=(PROVEN,),
            headers={"Auto-Submitted": "auto-generated", "List-Unsubscribe": "<https://x>"},
            files={"bill.pdf": b"x" * 9},
        )
        shop.write_again()
        shop.write("unproven", results=())
        room.ann.write("hello")
        await room.until_accepted(1)
        await until_flags(room, "", "", "", "S", "S", "S", "S")
    assert (room.texts(), room.postman.received) == (["hello"], [])
    invoice, unproven = room.control.offers
    assert (invoice.sender, invoice.sender_name, invoice.to) == (SHOP, "Ann", USER)
    assert (invoice.subject, invoice.doubt) == ("Invoice", "")
    assert unproven.doubt == f"no Authentication-Results header of {AUTHSERV}"
    assert invoice.content is not None and invoice.content.text == "Pay 7 EUR."
    assert [(it.name, it.size) for it in invoice.content.files] == [("bill.pdf", 9)]
    # Files are stored for the conversation, so that they are erased with it.
    (bill,) = invoice.content.attachments["ann"]
    content = [piece async for piece in await room.spool.open_upload(bill.ref)]
    assert (b"".join(content), bill.name) == (b"x" * 9, "bill.pdf")


async def test_mail_above_the_rate_waits_over_a_restart_and_holds_nothing_up(
    room: MailRoom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mailbox_watcher, "RETRY_WAITING_S", 0.1)
    shop = MailUser(room.imap, room.postman, SHOP)
    later = MailDecision(outcome="later")
    room.control.decisions = [later] * 10_000
    async with room.running():
        shop.write("waits", results=(PROVEN,), files={"a": b"x", "huge": b"x" * 1_000_001})
        room.ann.write("hello")
        await room.until_accepted(1)
        await until_flags(room, "", "S")
        assert room.control.offers == []
    room.control.decisions = [later]
    async with room.running():
        await until_flags(room, "S", "S")
    assert len(room.control.offers) == 1
    assert room.texts() == ["hello"]
    # Every offer stored the file again, and only the last copy is left; a huge one is left out.
    content = room.control.offers[0].content
    assert content is not None and [it.name for it in content.attachments["ann"]] == ["a"]
    assert len([*(tmp_path / "spool/in/ann").iterdir()]) == 2  # the file and its description
