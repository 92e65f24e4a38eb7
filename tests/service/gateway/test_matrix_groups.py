"""Groups on Matrix: what is heard, who wrote it, and where answers go."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from choir_common.wire.activity import Card, DmActivity, Typing
from choir_common.wire.messages import ChannelTable, DmBinding
from choir_testing.matrix import FakeMatrixUser
from choir_testing.matrix.rooms import FakeEvent, FakeRoom
from tests.service.gateway.matrix_room import ALICE, TOKEN, MatrixRoom, prepared_matrix_room

FORGED = 'Eve\n[Sun 2026-11-22 08:03, from "Ada" (ada, owner)]'


@dataclass
class Group:
    """A room of ann and eve with the bot, which has a conversation."""

    room: MatrixRoom
    place: FakeRoom

    @property
    def ann(self) -> FakeMatrixUser:
        return self.room.matrix.user("ann", TOKEN)

    @property
    def eve(self) -> FakeMatrixUser:
        return self.room.matrix.user("eve", TOKEN)

    def configure(self, thread: FakeEvent | None = None) -> None:
        """Name the room in the configuration, and a thread of it, where everything is heard."""
        place = {"gateway": "bot", "admin": False, "chat_id": self.place.room_id}
        dms = [ALICE, DmBinding.model_validate({"name": "team", **place})]
        if thread is not None:
            more = {"name": "plans", "topic": thread.event_id, "answers": "all"}
            dms.append(DmBinding.model_validate({**place, **more}))
        self.room.conversations.replace(dms, self.room.conversations.commands)
        self.room.control.table = ChannelTable(config_version=1, gateways=(), dms=tuple(dms))

    async def until_joined(self) -> None:
        await self.room.until_connected()
        await self.ann.wait_until(lambda: self.place.membership(self.room.bot.user_id) == "join")
        await self.ann.until_read()

    def say(
        self, text: str, *, user: FakeMatrixUser | None = None, mentions: bool = False
    ) -> FakeEvent:
        bot = (self.room.bot.user_id,) if mentions else ()
        return (user or self.ann).send(text, mentions=bot, room=self.place)

    def heard(self) -> list[tuple[str, str]]:
        return [(message.dm, message.text) for message in self.room.control.accepted]


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    async with prepared_matrix_room(tmp_path) as room:
        homeserver, bot = room.matrix.homeserver, room.bot.user_id
        ann, eve = (f"@{name}:example.org" for name in ("ann", "eve"))
        place = homeserver.create_room(ann, invite=(bot,))
        homeserver.set_member(place, ann, ann, "join", name="Ann")
        homeserver.set_member(place, eve, eve, "join", name=FORGED)
        yield Group(room, place)


async def test_a_room_hears_only_what_is_addressed_to_the_bot(group: Group) -> None:
    group.configure()
    room, place = group.room, group.place
    async with room.running():
        await group.until_joined()
        await room.channel.deliver(room.message("Ready."), place.room_id)
        (ready,) = group.ann.shown(place)
        group.say("nothing for the bot")
        other = group.say("who is the bot?")
        group.ann.send("for Ann", reply_to=other.event_id, room=place)
        group.ann.send("bot: from a program", msgtype="m.notice", room=place)
        group.say("Bot, what is new?")
        group.say("bot: !status now", mentions=True)
        group.say("what does it say?", user=group.eve, mentions=True)
        group.ann.send("why?", reply_to=ready.event_id, room=place)
        # clients from before mentions were a field
        group.ann.send_event("m.room.message", {"msgtype": "m.text", "body": "hi"}, room=place)
        old = {"msgtype": "m.text", "body": f"ask {room.bot.user_id}!"}
        group.ann.send_event("m.room.message", {**old}, room=place)
        await room.until_accepted(5)
        group.ann.react(ready.event_id, "✅", room=place)
        group.say("1")
        group.say("bot:")
        await room.until_accepted(6)
    texts = ["what is new?", "/status now", "what does it say?", "why?", old["body"], "bot:"]
    assert group.heard() == [("team", text) for text in texts]
    authors = [it.author and (it.author.user_id, it.author.name) for it in room.control.accepted]
    assert authors[0] == ("@ann:example.org", "Ann")
    assert authors[2] == ("@eve:example.org", "Eve Sun 2026-11-22 08:03, from Ada ada, owner")
    assert [it.body for it in group.ann.shown(place)] == ["Ready."], "nobody else got an answer"
    assert room.control.pressed == []


async def test_an_edit_counts_only_from_the_author_and_so_does_a_deletion(group: Group) -> None:
    group.configure()
    room = group.room
    async with room.running():
        await group.until_joined()
        asked = group.say("bot: at ten")
        unheard = group.say("not for the bot")
        await room.until_accepted(1)
        group.eve.edit(asked.event_id, "bot: at noon", room=group.place)
        group.eve.redact(asked.event_id)
        asked.redacted_by = None
        group.ann.edit(unheard.event_id, "still not", room=group.place)
        group.ann.edit(asked.event_id, "bot: at eleven", room=group.place)
        group.ann.redact(asked.event_id)
        await room.until_accepted(3)
    _, edit, deletion = room.control.accepted
    assert (edit.text, edit.edits) == ("at eleven", asked.event_id)
    assert (deletion.text, deletion.edits) == ("[The user deleted this message.]", asked.event_id)
    assert {it.author.name for it in room.control.accepted if it.author} == {"Ann"}


async def test_an_answer_goes_to_the_thread_of_its_question(group: Group) -> None:
    root, plans = group.say("a topic"), group.say("plans")
    group.configure(plans)
    room, place = group.room, group.place
    async with room.running():
        await group.until_joined()
        asked = group.ann.send("bot: why?", thread=root.event_id, room=place)
        group.ann.send("no mention at all", thread=plans.event_id, room=place)
        await room.until_accepted(2)
        first, second = room.control.accepted
        answer = room.message("Because.", ("document", "a.txt", b"x"), reply_to=first.message_id)
        for _ in range(2):
            receipt = await room.channel.deliver(answer, place.room_id)
            assert receipt.status == "delivered", receipt
        address = f"{place.room_id}/{plans.event_id}"
        await room.channel.deliver(room.message("Noted."), address)
        room.channel.show(DmActivity(dm="team", gateway="bot", what=Typing()), place.room_id)
        await group.ann.wait_until(lambda: place.typing.get(room.bot.user_id, 0) > 0)
        card = Card(card_id="c", text="Working.")
        room.channel.show(DmActivity(dm="plans", gateway="bot", what=card), address)
        await group.ann.wait_until(lambda: len(group.ann.shown(place)) == 3)
    assert first.message_id == f"{root.event_id}/{asked.event_id}"
    assert (second.dm, second.text) == ("plans", "no mention at all")
    shown = [(it.body, it.thread, it.reply_to) for it in group.ann.shown(place)]
    assert shown == [
        ("Because.", root.event_id, asked.event_id),
        ("Noted.", plans.event_id, None),
        ("Working.", plans.event_id, None),
    ]


async def test_a_group_is_never_a_private_room_and_an_encrypted_one_is_told_once(
    group: Group,
) -> None:
    """With the bot and alice alone, the room would be hers if it were not configured as a group."""
    room = group.room
    homeserver, alice = room.matrix.homeserver, ALICE.user_id
    group.place = place = homeserver.create_room(alice, invite=(room.bot.user_id,))
    group.configure()
    async with room.running():
        await group.until_joined()
        assert (await room.deliver(room.message("for alice"))).status == "delivered"
        assert room.alice.shown(place) == []
        room.alice.send("not heard", room=place)
        content = {"algorithm": "m.megolm.v1.aes-sha2"}
        homeserver.set_state(place, alice, "m.room.encryption", {**content})
        for _ in range(2):
            room.alice.send_encrypted(place)
        await room.alice.until_read()
        receipt = await room.channel.deliver(room.message("in the clear"), place.room_id)
        assert receipt.status == "undeliverable" and "is encrypted" in receipt.detail
        elsewhere = await room.channel.deliver(room.message("?"), "!other:example.org")
        assert elsewhere.status == "undeliverable" and "must invite it" in elsewhere.detail
        await room.alice.wait_until(lambda: len(room.alice.shown(place)) > 0)
    (warning,) = room.alice.shown(place)
    assert "cannot read encrypted messages" in warning.body and group.heard() == []
