"""A reply while it is written, on every way to a user: a phone, the console's API, and `choirctl chat`."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from choir_common.http.client import make_client
from choir_common.http.response_parser import ServerSentEvent, parse_events
from choir_common.wire.events import ModelOutput, parse_payload
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.journey.phone import BOT_TOKEN, TELEGRAM_USER, Prepare
from tests.service.choirctl.test_talk import terminal
from tests.support.stack import EmbeddedStack, read_log, running_stack_in_thread, sessions_of
from tests.support.streaming_model import StreamingModel, run_streaming

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # test_web_page.py streams a whole way; tests/service/gateway/test_drafts.py and choirctl have the others
    pytest.mark.nightly,
]
WITHIN_S = 300
# Drafts end with punctuation: a last letter that a secret begins with is held back until the next part.
# On a terminal they have no character of a status line, since what is there already is not written again.
MESSAGES, EVENTS = "/v1/dms/console/messages", "/v1/dms/console/events"


@dataclass
class Place:
    """A stack with an agent at the console, another behind a bot, and the model of both."""

    stack: EmbeddedStack
    model: StreamingModel
    telegram: FakeTelegram


@dataclass
class Screen:
    """A client of the console's API, as docs/console.md describes one."""

    _events: AsyncIterator[ServerSentEvent]
    draft: str = ""
    messages: list[str] = field(default_factory=list)

    async def shows(self, draft: str) -> None:
        """Read until the draft is this text."""
        async with asyncio.timeout(WITHIN_S):
            while self.draft != draft:
                self._take(await anext(self._events))

    async def says(self, message: str) -> None:
        """Read until this message has come."""
        async with asyncio.timeout(WITHIN_S):
            while message not in self.messages:
                self._take(await anext(self._events))

    def _take(self, event: ServerSentEvent) -> None:
        data = json.loads(event.data)
        if event.event == "delta":
            self.draft = ("" if data["offset"] == 0 else self.draft) + data["text"]
        elif event.event == "message":
            self.messages.append(data["text"])
            self.draft = ""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with run_streaming() as model, run_fake_telegram() as telegram:

        def prepare(home: Path) -> None:
            Prepare(telegram.api_url)(home)
            path = home / "config.json"
            config: dict[str, Any] = json.loads(path.read_text())
            config["models"] = {"default": {"model": "m", "endpoint": model.endpoint}}
            config["summary_timeout_ms"] = 0
            (home / "workspaces" / "second").mkdir(mode=0o700)
            config["workspaces"]["second"] = {"path": str(home / "workspaces" / "second")}
            defaults = {"workspace": "second", "llm": "default", "dm": "console"}
            config["agents"]["second"] = {"defaults": defaults, "autostart": True}
            path.write_text(json.dumps(config))

        telegram.user(TELEGRAM_USER, BOT_TOKEN)
        async with running_stack_in_thread(prepare=prepare) as stack:
            yield Place(stack, model, telegram)


@contextlib.asynccontextmanager
async def a_screen(client: httpx2.AsyncClient) -> AsyncIterator[Screen]:
    timeout = httpx2.Timeout(10, read=60)
    async with client.stream("GET", EVENTS, timeout=timeout) as response:
        assert response.status_code == 200
        parts = response.aiter_bytes()
        # the stream is open once its first comment has come
        first = await anext(parts)
        assert first.startswith(b":")
        yield Screen(parse_events(parts))


async def test_a_phone_shows_a_draft_and_then_the_message(place: Place) -> None:
    user = place.telegram.user(TELEGRAM_USER, BOT_TOKEN)
    await user.send("tell me")
    call = await place.model.next_call()
    call.say("Once **upon**")
    async with asyncio.timeout(WITHIN_S):
        await user.chat.wait_until(lambda chat: chat.draft is not None)
    assert user.chat.draft is not None
    assert user.chat.draft.text == "Once upon"
    assert user.chat.bot_texts() == []
    call.end(" a time.")
    async with asyncio.timeout(WITHIN_S):
        await user.chat.wait_until(lambda chat: chat.bot_texts() == ["Once upon a time."])
    assert user.chat.draft is None


async def test_the_console_streams_a_reply_to_old_and_new_clients(place: Place) -> None:
    async with make_client(place.stack.endpoint) as client, a_screen(client) as screen:
        await client.post(MESSAGES, json={"text": "tell me"})
        call = await place.model.next_call()
        call.say("Once,")
        await screen.shows("Once,")
        call.say(" upon,")
        await screen.shows("Once, upon,")
        async with a_screen(client) as late:
            await late.shows("Once, upon,")
            call.say(" a;")
            for one in (screen, late):
                await one.shows("Once, upon, a;")
            # a retry begins again
            call.cut()
            again = await place.model.next_call()
            again.say("In the:")
            for one in (screen, late):
                await one.shows("In the:")
            again.end(" beginning.")
            for one in (screen, late):
                await one.says("In the: beginning.")
                assert one.messages.count("In the: beginning.") == 1
                assert one.draft == ""


async def test_a_chat_shows_tokens_and_prints_the_reply_once(place: Place) -> None:
    words = ("chat", "--dm", "console", "-m", "tell me")
    with terminal(place.stack.home, *words, env={"TERM": "xterm"}) as screen:
        call = await place.model.next_call()
        call.say("ONCE-UPON,")
        await screen.shows("ONCE-UPON,")
        call.end(" a time, finally.")
        await screen.shows("a time, finally.")
        assert await screen.ends() == 0
    assert screen.screen.text.count("finally.") == 1


async def test_ctrl_c_in_a_chat_stops_the_model_and_keeps_what_was_seen(place: Place) -> None:
    with terminal(place.stack.home, "chat", "--dm", "console", env={"TERM": "xterm"}) as screen:
        await screen.shows("Ctrl-D leaves", "›")
        screen.types("tell me\r")
        call = await place.model.next_call()
        call.say("HALF-OF-THE-TALE,")
        await screen.shows("HALF-OF-THE-TALE,")
        screen.types("\x03")
        async with asyncio.timeout(WITHIN_S):
            await call.left.wait()
        await screen.shows("I stopped here, as you asked.")
        screen.types("\x04")
        assert await screen.ends() == 0
    texts = await outputs_of(place, "second")
    assert texts[-1] == "HALF-OF-THE-TALE,\n\n[I stopped here, as you asked.]"


async def test_ctrl_c_in_a_chat_stops_a_model_that_has_shown_nothing_yet(place: Place) -> None:
    with terminal(place.stack.home, "chat", "--dm", "console", env={"TERM": "xterm"}) as screen:
        await screen.shows("Ctrl-D leaves", "›")
        screen.types("think about it\r")
        call = await place.model.next_call()
        await screen.shows("thinking,")
        assert not call.left.is_set()
        screen.types("\x03")
        async with asyncio.timeout(WITHIN_S):
            await call.left.wait()
        await screen.shows("Cancelled.")
        screen.types("\x04")
        assert await screen.ends() == 0
    assert all("think about it" not in text for text in await outputs_of(place, "second"))


async def test_a_new_message_stops_the_reply_before_it(place: Place) -> None:
    async with make_client(place.stack.endpoint) as client, a_screen(client) as screen:
        await client.post(MESSAGES, json={"text": "tell me"})
        first = await place.model.next_call()
        first.say("A long,")
        await screen.shows("A long,")
        await client.post(MESSAGES, json={"text": "rather something short"})
        second = await place.model.next_call()
        assert first.left.is_set()
        second.end("Short.")
        await screen.says("A long,\n\n[I stopped here because of your next message.]")
        await screen.says("Short.")


async def outputs_of(place: Place, agent: str) -> list[str]:
    """Return what an agent's model has written, as its log has it."""
    session = (await sessions_of(place.stack, agent))[0]
    events = await read_log(place.stack, session["session_id"])
    payloads = [parse_payload(event) for event in events]
    return [payload.text for payload in payloads if isinstance(payload, ModelOutput)]
