"""A reply in the terminal while it is written: shown, replaced by the stored one, and stopped by Ctrl-C."""

import asyncio
import os
import signal

from choir_common.wire.activity import DraftDelta
from tests.service.choirctl.console_stand_in import Console, served
from tests.service.choirctl.test_talk import Terminal, terminal
from tests.support.preloaded_choirctl import run_choirctl

A_REAL_ONE = {"TERM": "xterm"}
REPLY = "Once upon a time there was a reply."


async def writes(console: Console, offset: int, text: str) -> None:
    await console.show("delta", DraftDelta(offset=offset, text=text).model_dump_json())


async def leaves(screen: Terminal) -> None:
    screen.types("\x04")
    assert await screen.ends() == 0


async def test_a_chat_shows_a_reply_as_it_is_written_and_then_once_as_it_is_stored() -> None:
    console = Console(is_answering=False)
    async with served(console) as place:
        with terminal(place.home, "chat", env=A_REAL_ONE) as screen:
            await screen.shows("Ctrl-D leaves", "›")
            screen.types("tell me\r")
            await console.until_said()
            await writes(console, 0, "Once upon")
            await screen.shows("Once upon")
            await writes(console, 9, " a time")
            await screen.shows("a time")
            await console.say(REPLY, "in_0")
            await screen.shows("there was a reply.")
            screen.types("x")
            await screen.falls_silent()
            # the stored reply replaces the draft: it is not drawn again below the prompt
            assert screen.screen.text.count("Once upon") == 1
            screen.types("\x03")
            await leaves(screen)
    assert screen.screen.text.count("there was a reply.") == 1


async def test_a_retry_replaces_what_was_shown() -> None:
    console = Console(is_answering=False)
    async with served(console) as place:
        with terminal(place.home, "chat", env=A_REAL_ONE) as screen:
            await screen.shows("Ctrl-D leaves", "›")
            await writes(console, 0, "a wrong beginning")
            await screen.shows("a wrong beginning")
            await writes(console, 0, "Well")
            await screen.shows("Well")
            await leaves(screen)


async def test_ctrl_c_stops_the_reply_and_the_next_one_leaves() -> None:
    console = Console(is_answering=False)
    async with served(console) as place:
        with terminal(place.home, "chat", env=A_REAL_ONE) as screen:
            await screen.shows("Ctrl-D leaves", "›")
            screen.types("tell me\r")
            await console.until_said()
            await writes(console, 0, "Once upon")
            await screen.shows("Once upon")
            screen.types("\x03")
            assert await console.until_command() == "/cancel"
            await screen.shows("did /cancel")
            screen.types("\x03")
            assert await screen.ends() == 0


async def test_ctrl_c_before_the_first_word_stops_the_reply_and_does_not_leave() -> None:
    console = Console(is_answering=False)
    async with served(console) as place:
        with terminal(place.home, "chat", env=A_REAL_ONE) as screen:
            await screen.shows("Ctrl-D leaves", "›")
            screen.types("think about it\r")
            await console.until_said()
            await screen.shows("thinking,")
            screen.types("\x03")
            assert await console.until_command() == "/cancel"
            await screen.shows("did /cancel")
            await console.say("Cancelled.", "in_0")
            await screen.shows("Cancelled.")
            # nothing is to be stopped any more
            screen.types("\x03")
            assert await screen.ends() == 0


async def test_one_message_shows_its_reply_on_the_terminal_while_it_is_written() -> None:
    console = Console(is_answering=False)
    async with served(console) as place:
        with terminal(place.home, "chat", "-m", "tell me", env=A_REAL_ONE) as screen:
            await console.until_said()
            await writes(console, 0, "Once upon")
            await screen.shows("Once upon")
            await console.say(REPLY, "in_0")
            await screen.shows("there was a reply.")
            assert await screen.ends() == 0
    assert screen.screen.text.count("there was a reply.") == 1


async def test_ctrl_c_stops_the_reply_to_one_message() -> None:
    console = Console(is_answering=False)
    async with served(console) as place:
        with terminal(place.home, "chat", "-m", "tell me", env=A_REAL_ONE) as screen:
            await console.until_said()
            await writes(console, 0, "Once upon")
            await screen.shows("Once upon")
            os.kill(screen.process.pid, signal.SIGINT)
            assert await console.until_command() == "/cancel"
            assert await screen.ends() != 0


async def test_without_a_terminal_only_the_stored_reply_is_printed() -> None:
    delta = DraftDelta(offset=0, text="a draft").model_dump_json()
    console = Console(going_on=[("delta", delta)])
    async with served(console) as place:
        done = await asyncio.to_thread(run_choirctl, "chat", "-m", "hello", home=place.home)
    assert done.returncode == 0
    assert done.stdout == "you said hello\n"
    assert "a draft" not in done.stderr
