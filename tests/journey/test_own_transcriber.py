"""Voice messages without internet: `choirctl up` serves a model directory to the console and to Telegram."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from choir_common.wire.messages import OutboundMessage
from tests.journey.town import BEN, LOBBY, Phone, Town, founding_town
from tests.support import faster_whisper_stand_in
from tests.support.ogg import make_speech
from tests.support.ports import free_port
from tests.support.stack import ConsoleUser, console_user

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # tests/service/local/test_transcriber.py has the process, test_town_talk.py the way of a voice message
    pytest.mark.nightly,
]
STAND_IN = Path(faster_whisper_stand_in.__file__).parent
"""Found by the transcriber on PYTHONPATH, in place of the library, whose models cannot be downloaded here."""
PATIENCE_S = 200.0
WHO = make_speech("So, who are you?")
SLOWLY = make_speech("So, who are you? " + "slowly " * 300)


@dataclass(slots=True)
class Ears:
    """A town whose voice messages are transcribed by Choir's own transcriber."""

    town: Town
    user: ConsoleUser
    """The user of `main`."""
    slow_files: int = 0
    """Slow files that the transcriber had begun before the last message."""

    async def say(self, content: bytes) -> str:
        """Send a voice message at the console; return its inbox id."""
        client, dm = self.user.client, self.user.dm
        self.slow_files = self._count_slow_files()
        put = await client.put(f"/v1/dms/{dm}/files", params={"name": "note.ogg"}, content=content)
        sent = await client.post(
            f"/v1/dms/{dm}/messages",
            json={"text": "", "files": [put.json()["ref"]], "idempotency_key": os.urandom(8).hex()},
        )
        return str(sent.json()["inbox_id"])

    async def asks(self, content: bytes) -> OutboundMessage:
        """Send a voice message at the console; return its answer."""
        return await self.user.wait_for_answer(await self.say(content), PATIENCE_S)

    async def recognizes(self) -> None:
        """Wait until the transcriber is in the middle of the last message's slow file."""
        async with asyncio.timeout(PATIENCE_S):
            while self._count_slow_files() <= self.slow_files:
                await asyncio.sleep(0.02)

    def _count_slow_files(self) -> int:
        log = self.town.stack.home / "logs" / "transcriber.log"
        return log.read_text().count("slowly") if log.exists() else 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ears(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ears]:
    model = tmp_path_factory.mktemp("model")
    for name in ("model.bin", "tokenizer.json"):
        (model / name).touch()
    endpoint = f"http://127.0.0.1:{free_port()}/v1"

    def edit(config: dict[str, Any]) -> None:
        config["transcription"] = {
            "own": {"model": "tiny", "endpoint": endpoint, "model_dir": str(model)}
        }
        config["dms"]["desk"] = {"gateway": "console", "user_id": "desk"}
        config["agents"]["main"]["defaults"]["dm"] = "desk"

    async with (
        founding_town(env={"PYTHONPATH": f"{STAND_IN}:{Path.cwd()}"}, edit=edit) as town,
        console_user(town.stack.endpoint, "desk") as user,
    ):
        yield Ears(town, user)


@pytest.fixture
def ben(ears: Ears) -> Phone:
    """Return the phone of the user of `helper`."""
    return Phone(ears.town.telegram.user(BEN, LOBBY))


async def test_a_voice_message_at_the_console_is_answered_with_one(ears: Ears) -> None:
    answer = await ears.asks(WHO)
    assert answer.text == "An agent of the town."
    assert [file.kind for file in answer.attachments] == ["voice"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no audio at all", "This is not audio that can be read"),
        (b"", "the file is empty. Please record it again."),
        (make_speech(" "), "no words were recognised in it. Please record it again"),
        (make_speech("x", seconds=1_201), "it lasts 1201 s, and the limit is 1200 s"),
    ],
)
async def test_a_file_without_words_says_why_and_what_to_do(
    ears: Ears, content: bytes, words: str
) -> None:
    failed = await ears.asks(content)
    assert failed.kind == "error" and words in failed.text


async def test_a_short_message_is_answered_while_a_long_one_is_transcribed(
    ears: Ears, ben: Phone
) -> None:
    long, after = await ears.say(SLOWLY), ben.newest
    await ears.recognizes()
    await ben.user.send_file("voice", "ignored", WHO)
    await ben.sees("An agent of the town.", after)
    assert not any(message.answers == long for message in ears.user.heard)
    assert (await ears.user.wait_for_answer(long, PATIENCE_S)).kind == "answer"


async def test_a_message_survives_the_death_of_the_transcriber(ears: Ears) -> None:
    message = await ears.say(SLOWLY)
    await ears.recognizes()
    await ears.town.stack.kill("transcriber")
    assert (await ears.user.wait_for_answer(message, PATIENCE_S)).kind == "answer"


@pytest.mark.nightly  # test_town_talk.py restarts during a transcription, too
async def test_a_message_survives_a_restart_of_choir(ears: Ears) -> None:
    stack, message = ears.town.stack, await ears.say(SLOWLY)
    await ears.recognizes()
    await asyncio.to_thread(stack.run, "down")
    await asyncio.to_thread(stack.run, "up", "--detach", "--score", str(ears.town.score))
    answer = await ears.user.wait_for_answer(message, PATIENCE_S)
    assert answer.text == "An agent of the town."
    assert sum(heard.answers == message for heard in ears.user.heard) == 1
