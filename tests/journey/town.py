"""A town with two bots and three people: who talks to which agent, and a phone for each.

Made by the journeys over Telegram; a whole stack runs between the phones and the agents. Ada is an admin,
Ben and Cleo are not; `aide`, who is Cleo's, does not start by itself.
"""

import contextlib
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choir_testing.telegram import FakeTelegram, FakeUser, SentMessage, run_fake_telegram
from tests.support.fake_speech import FakeSpeech, fake_speech
from tests.support.fake_web_services import KEY, FakeWebService, fake_elevenlabs
from tests.support.ogg import make_speech
from tests.support.stack import EmbeddedStack, running_stack_in_thread

SCORE = Path(__file__).parent / "scores" / "town.json"
LOBBY, ANNEX = "111:token-of-the-lobby", "222:token-of-the-annex"
ADA, BEN, CLEO = 7, 8, 9
OGG = make_speech("Good morning.", size=50_000)
PATIENCE_S = 300.0
EVERYTHING = "\n\n".join(
    f"Chapter {chapter}.\n" + " ".join(f"word-{chapter}-{word}" for word in range(150))
    for chapter in range(12)
)
"""An answer of more than 20,000 characters in which every word has its place."""

Edit = Callable[[dict[str, Any]], None]
"""Changes config.json."""


@dataclass(frozen=True, slots=True)
class Phone:
    """One person's chat with one bot."""

    user: FakeUser

    async def asks(self, text: str, words: str = "") -> str:
        """Say something; return the first message after it that holds `words`."""
        after = self.newest
        await self.user.send(text)
        return (await self.sees(words, after)).text

    async def sees(self, words: str, after: int = 0) -> SentMessage:
        """Wait until a message of the bot's, newer than `after`, holds `words`; return it."""
        return await self.finds(lambda message: words in message.text, after, words)

    async def finds(
        self, is_it: Callable[[SentMessage], bool], after: int = 0, what: str = "it"
    ) -> SentMessage:
        """Wait until the bot shows something; return that."""

        def found() -> list[SentMessage]:
            said = self.user.chat.messages.values()
            return [m for m in said if m.from_bot and m.message_id > after and is_it(m)]

        try:
            await self.user.wait_until(lambda _: bool(found()), PATIENCE_S)
        except TimeoutError:
            raise AssertionError(f"no {what!r} in {self.user.chat.bot_texts()}") from None
        return found()[0]

    @property
    def newest(self) -> int:
        """The id of the newest message in the chat."""
        return max(self.user.chat.messages, default=0)


@dataclass(frozen=True, slots=True)
class Town:
    """The whole of it."""

    stack: EmbeddedStack
    telegram: FakeTelegram
    voice: FakeWebService
    ears: FakeSpeech
    """What transcribes voice messages."""
    score: Path
    """Of the rehearsal model, for a restart."""

    @property
    def ada(self) -> Phone:
        return self.phone(ADA, LOBBY)

    @property
    def ben(self) -> Phone:
        return self.phone(BEN, LOBBY)

    @property
    def cleo(self) -> Phone:
        return self.phone(CLEO, ANNEX)

    def phone(self, person: int, token: str) -> Phone:
        """Give somebody a phone; the chat with the bot is open."""
        return Phone(self.telegram.user(person, token))

    def workspace(self, name: str) -> Path:
        """Where an agent's files are."""
        return self.stack.home / "workspaces" / name

    def configure(self, edit: Edit) -> None:
        """Edit config.json, as a person would; nothing is in force yet."""
        configure(self.stack.home, edit)


def configure(home: Path, edit: Edit) -> None:
    """Edit config.json of a home."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config, indent=2))


def keep_secrets(home: Path, secrets: Mapping[str, str]) -> None:
    """Add to secrets.json of a home."""
    path = home / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **secrets}))


def sha256(content: bytes) -> str:
    """Return what `sha256sum` prints."""
    return hashlib.sha256(content).hexdigest()


@contextlib.asynccontextmanager
async def founding_town(
    env: Mapping[str, str] | None = None,
    edit: Edit = lambda _: None,
    secrets: Mapping[str, str] | None = None,
) -> AsyncIterator[Town]:
    """Start it; all three have opened their chats. `edit` and `secrets` change what it starts with."""
    async with (
        run_fake_telegram() as telegram,
        fake_elevenlabs(OGG) as voice,
        fake_speech() as ears,
    ):

        def prepare(home: Path) -> None:
            configure(home, lambda config: _settle(config, home, telegram.api_url, voice.endpoint))
            configure(home, lambda config: _give_ears(config, ears.endpoint))
            configure(home, edit)
            tokens = {"lobby-token": LOBBY, "annex-token": ANNEX, "tts-key": KEY}
            keep_secrets(home, {**tokens, **(secrets or {})})

        with tempfile.TemporaryDirectory(prefix="choir-town-") as place:
            score = Path(place) / "score.json"
            score.write_text(SCORE.read_text().replace("EVERYTHING", json.dumps(EVERYTHING)[1:-1]))
            async with running_stack_in_thread(score, env=env, prepare=prepare) as stack:
                town = Town(stack, telegram, voice, ears, score)
                for phone in (town.ada, town.ben, town.cleo):
                    assert phone.user.chat.bot_texts() == []
                yield town


def _give_ears(config: dict[str, Any], endpoint: str) -> None:
    """Let all agents transcribe voice messages."""
    ears = {"model": "whisper-1", "endpoint": endpoint, "secret": "tts-key", "timeout_ms": 3_000}
    config["transcription"] = {"ears": ears}


def _settle(config: dict[str, Any], home: Path, api_url: str, voice_url: str) -> None:
    """Write down who lives where."""
    bot = {"type": "telegram", "api_url": api_url}
    config["gateways"] |= {
        "lobby": {**bot, "secret": "lobby-token"},
        "annex": {**bot, "secret": "annex-token"},
    }
    config["dms"] |= {
        "ada": {"gateway": "lobby", "user_id": str(ADA), "admin": True},
        "ben": {"gateway": "lobby", "user_id": str(BEN)},
        "cleo": {"gateway": "annex", "user_id": str(CLEO)},
    }
    profile = {"tts": "eleven", "voice_id": "voice1", "output_format": "opus_48000_64"}
    config["tts"] = {"eleven": {"model_id": "m", "endpoint": voice_url, "secret": "tts-key"}}
    config["voice_profiles"] = {"calm": profile, "bright": profile}
    config["models"] = {"other": {"model": "another", "endpoint": "http://127.0.0.1:9/v1"}}
    for agent, dm in (("main", "ada"), ("helper", "ben"), ("aide", "cleo")):
        path = home / "workspaces" / agent
        path.mkdir(mode=0o700, exist_ok=True)
        config["workspaces"][agent] = {"path": str(path)}
        defaults = {"workspace": agent, "llm": "default", "dm": dm, "voice_profile": "calm"}
        config["agents"][agent] = {"defaults": defaults, "autostart": agent != "aide"}
