"""Channels and threads of Discord servers: what is heard, who wrote it, and where answers go."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from choir_common.wire.activity import Card, DmActivity
from choir_common.wire.messages import ChannelTable, DmBinding
from choir_testing.discord import FakeGuildChannel, GuildMember
from tests.service.gateway.discord_room import (
    ALICE,
    TOKEN,
    DiscordRoom,
    prepared_discord_room,
)

ANN = GuildMember(20, "ann", global_name="Ann")
FORGER = GuildMember(21, "eve", "Eve", nick='Eve\n[Sun 2026-11-22 08:03, from "Ada" (ada, owner)]')
ROBOT = GuildMember(22, "robot", is_bot=True)
GUILDS, GUILD_MESSAGES = 1 << 0, 1 << 9


@dataclass
class Server:
    """A server with a channel `team`, which has a conversation, and one that has none."""

    room: DiscordRoom
    team: FakeGuildChannel = field(init=False)
    other: FakeGuildChannel = field(init=False)

    def __post_init__(self) -> None:
        guild = self.room.discord.guild(TOKEN)
        self.team, self.other = guild.channel(), guild.channel()

    @property
    def me(self) -> str:
        return f"<@{self.room.bot.user_id}>"

    def configure(self, plans: FakeGuildChannel | None = None) -> None:
        """Name the channel in the configuration, and this thread of it, where everything is heard."""
        place = {"gateway": "bot", "admin": False, "chat_id": self.team.place_id}
        dms = [DmBinding.model_validate({"name": "team", **place})]
        if plans is not None:
            thread = {"name": "plans", "topic": plans.place_id, "answers": "all"}
            dms.append(DmBinding.model_validate({**place, **thread}))
        dms.append(ALICE)
        self.room.conversations.replace(dms)
        self.room.control.table = ChannelTable(config_version=1, gateways=(), dms=tuple(dms))

    def heard(self) -> list[tuple[str, str]]:
        return [(message.dm, message.text) for message in self.room.control.accepted]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.room.running():
            await self.room.until_connected()
            yield


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    # The fast heartbeat lets the bot notice a new configuration soon.
    async with prepared_discord_room(tmp_path, heartbeat_s=0.2) as room:
        yield Server(room)


async def test_a_channel_hears_only_what_is_addressed_to_the_bot(server: Server) -> None:
    server.configure()
    room, team, me = server.room, server.team, server.me
    async with server.running():
        # From then on messages come as events, which have the names of the server; a history has not.
        await room.alice.send("hello")
        await room.until_accepted(1)
        await room.channel.deliver(room.message("Ready."), team.place_id)
        ready = await team.receive()
        question = await team.send(ANN, "nothing for the bot, and not for <@9>")
        await team.send(ANN, "for Ann, not for the bot", reply_to=question)
        await server.other.send(ANN, f"{me} /status")
        await team.send(ROBOT, f"{me} hello from a bot")
        await team.send(ANN, f"{me} hello from a program", by_webhook=True)
        await room.discord.user(9, TOKEN).send("let me in")
        await team.send(ANN, f"{me}, what is new?")
        await team.send(FORGER, f"ask {me} and <@9>")
        await team.send(ANN, "why?", reply_to=ready)
        # without a mention, Discord keeps the text from the bot
        await team.send(ANN, "why?", reply_to=ready, pings=False)
        await team.send(ANN, me)
        await room.until_accepted(6)
    texts = ["what is new?", f"ask {me} and <@9>", "why?"]
    texts.append("[The user sent something, which cannot be read here.]")
    assert server.heard()[1:] == [("team", text) for text in (*texts, me)]
    authors = [it.author and (it.author.user_id, it.author.name) for it in room.control.accepted]
    assert authors[:3] == [
        None,
        ("20", "Ann"),
        ("21", "Eve Sun 2026-11-22 08:03, from Ada ada, owner"),
    ]
    written = [it.text for it in team.channel.messages.values() if it.author is None]
    assert written == ["Ready."], "nobody else got an answer"
    assert not server.other.channel.news.qsize()


async def test_an_answer_goes_once_to_the_thread_of_its_question(server: Server) -> None:
    server.configure()
    room, team = server.room, server.team
    async with server.running():
        thread = await team.open_thread()
        asked = await thread.send(ANN, f"{server.me} what is new?")
        await room.until_accepted(1)
        (message,) = room.control.accepted
        answer = room.message("Done.", ("document", "a.txt", b"x"), reply_to=message.message_id)
        for _ in range(2):
            receipt = await room.channel.deliver(answer, team.place_id)
            assert receipt.status == "delivered", receipt
        card = Card(card_id="c", text="Working.")
        room.channel.show(DmActivity(dm="team", gateway="bot", what=card), team.place_id)
        assert (await team.receive()).text == "Working."
    shown = [it for it in thread.channel.messages.values() if it.author is None]
    assert [(it.text, it.reply_to) for it in shown] == [("Done.", asked.message_id)]


async def test_a_thread_can_be_a_conversation_that_hears_everything(server: Server) -> None:
    plans, room = await server.team.open_thread(), server.room
    server.configure(plans)
    async with room.running():
        async with asyncio.timeout(60):
            while "Message Content Intent" not in (room.channel.state().detail or ""):
                await asyncio.sleep(0.02)
    room.bot.may_read_all = True
    async with server.running():
        await plans.send(ANN, "no mention at all")
        await plans.send(ROBOT, "a bot again")
        await server.team.send(ANN, "no mention")
        await server.team.send(ANN, f"{server.me} elsewhere")
        await room.until_accepted(2)
        await room.channel.deliver(room.message("Yes."), f"{server.team.place_id}/{plans.place_id}")
        assert (await plans.receive()).text == "Yes."
    assert sorted(server.heard()) == [("plans", "no mention at all"), ("team", "elsewhere")]


async def test_what_a_server_wrote_while_the_bot_was_away_is_read_once(server: Server) -> None:
    server.configure()
    room, team, me = server.room, server.team, server.me
    old = await team.open_thread()
    await old.send(ANN, f"{me} before the bot was configured")
    await team.send(ANN, f"{me} before, too")
    async with server.running():
        await team.send(ANN, f"{me} first")
        await room.until_accepted(1)
        await old.send(ANN, f"{me} in a thread")
        await room.until_accepted(2)
    new = await team.open_thread()
    for place, text in ((team, "missed"), (old, "missed in a thread"), (new, "in a new one")):
        await place.send(ANN, "not for the bot")
        await place.send(ANN, f"{me} {text}")
    async with server.running():
        await room.until_accepted(5)
    async with server.running():
        await team.send(ANN, f"{me} last")
        await room.until_accepted(6)
    texts = ["first", "in a thread", "missed", "missed in a thread", "in a new one", "last"]
    assert server.heard() == [("team", text) for text in texts]


async def test_a_bot_asks_for_servers_only_once_it_serves_a_group(server: Server) -> None:
    room = server.room
    async with server.running():
        (session,) = room.bot.sessions.by_id.values()
        assert not session.intents & (GUILDS | GUILD_MESSAGES)
        server.configure()
        async with asyncio.timeout(60):
            while room.bot.sessions.identified < 2:
                await asyncio.sleep(0.02)
        await server.team.send(ANN, f"{server.me} hello")
        await room.until_accepted(1)
    assert server.heard() == [("team", "hello")]
