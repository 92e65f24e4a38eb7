"""A family with one agent: Ada, its owner, and Bob, a member, on four channels and in a group.

| conversation | channel | who |
|---|---|---|
| `phone` (the home conversation) | Telegram | Ada |
| `console` | the console | Ada |
| `discord` | Discord | Ada; nobody in `people` until she links it |
| `slack` | Slack | Bob |
| `bob` | Telegram | Bob |
| `team` | a Telegram group | both |
"""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choir_testing.discord import FakeDiscord, run_fake_discord
from choir_testing.slack import FakeSlack, run_fake_slack
from choir_testing.slack.server import APP_TOKEN
from choir_testing.slack.server import BOT_TOKEN as SLACK_TOKEN
from choir_testing.telegram import FakeGroup, FakeTelegram, GroupUser, run_fake_telegram
from tests.journey.personal_agent import LEDGER, append, call, rule
from tests.journey.town import PATIENCE_S, configure, keep_secrets
from tests.support.stack import ConsoleUser, EmbeddedStack, console_user, running_stack_in_thread

BOT_TOKEN, DISCORD_TOKEN = "111:family", "family.discord.secret"
ADA, BOB = GroupUser(7, "Ada"), GroupUser(8, "Bob")
BOT_NAME = "@bot_111"
CONVERSATIONS = ("phone", "console", "discord", "slack", "bob", "team")
SECRET_FACT = "The surprise for the birthday is an otter."
QUESTION = "what is the surprise"
QUERY = call("memory.query", store="knowledge", mode="text", query="birthday surprise")
SCORE = {
    "rules": [
        rule(
            {"regex": "Please remember: (.+)"},
            call("memory.upsert", operation="insert", key="birthday", text="{match.1}"),
            "Remembered: {result}",
        ),
        rule({"contains": QUESTION, "system_contains": SECRET_FACT}, f"In mind: {SECRET_FACT}"),
        rule({"contains": QUESTION}, QUERY, "Memory says: {result}"),
        rule(
            {"regex": "Please write down: (.+)"}, append("{match.1}"), "Written: {result.status}."
        ),
    ],
    "otherwise": [
        {"delay_ms": 60, **call("fs.search", pattern="x")},
        {"delay_ms": 60, "say": "you said {user}"},
    ],
}


@dataclass(frozen=True, slots=True)
class Family:
    """The stack and the people's devices."""

    stack: EmbeddedStack
    telegram: FakeTelegram
    discord: FakeDiscord
    slack: FakeSlack
    console: ConsoleUser

    @property
    def team(self) -> FakeGroup:
        return self.telegram.group(-100, BOT_TOKEN)

    @property
    def ledger(self) -> list[str]:
        """The lines of the file that only consent changes."""
        path = self.stack.home / "workspaces" / "main" / LEDGER
        return path.read_text().splitlines() if path.exists() else []

    async def say(self, dm: str, text: str, by: GroupUser = ADA) -> None:
        """Write in a conversation; `by` is who writes in the group."""
        match dm:
            case "phone" | "bob":
                person = ADA if dm == "phone" else BOB
                await self.telegram.user(person.user_id, BOT_TOKEN).send(text)
            case "console":
                await self.console.says(text)
            case "discord":
                await self.discord.user(7, DISCORD_TOKEN).send(text)
            case "slack":
                await self.slack.user("U8").send(text)
            case _:
                await self.team.send(by, f"{BOT_NAME} {text}")

    def shown(self, dm: str) -> list[str]:
        """Return what the agent and Choir have written in a conversation, oldest first."""
        match dm:
            case "phone" | "bob":
                person = ADA if dm == "phone" else BOB
                return self.telegram.user(person.user_id, BOT_TOKEN).chat.bot_texts()
            case "console":
                return [message.text for message in self.console.heard]
            case "discord":
                return self.discord.user(7, DISCORD_TOKEN).channel.bot_texts()
            case "slack":
                return self.slack.user("U8").channel.bot_texts()
            case _:
                return self.team.chat.bot_texts()

    async def ask(self, dm: str, text: str, words: str) -> str:
        """Write in a conversation; return the first message after it that contains `words`."""
        after = len(self.shown(dm))
        await self.say(dm, text)
        return await self.see(dm, words, after)

    async def see(self, dm: str, words: str, after: int = 0) -> str:
        """Wait until a conversation shows `words`; return the message."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            texts = [text for text in self.shown(dm)[after:] if words in text]
            if texts:
                return texts[0]
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {words!r} in {dm}: {self.shown(dm)[after:]}\n{self.stack.logs()}")

    async def until_connected(self) -> None:
        """Wait until Discord and Slack are connected: what is written before is not read."""
        async with asyncio.timeout(PATIENCE_S):
            while (
                not self.discord.bot(DISCORD_TOKEN).sessions.connections
                # the present end, and what is after it
                or self.slack.app.count_calls("conversations.history") < 2
            ):
                await asyncio.sleep(0.05)


def _settle(config: dict[str, Any], addresses: dict[str, str]) -> None:
    """Write down who is where."""
    config["gateways"] |= {
        name: {"type": name, "secret": f"{name}-token", "api_url": url}
        for name, url in addresses.items()
    }
    config["gateways"]["slack"]["app_secret"] = "slack-app-token"
    config["dms"] |= {
        "phone": {"gateway": "telegram", "user_id": "7"},
        "discord": {"gateway": "discord", "user_id": "7"},
        "slack": {"gateway": "slack", "user_id": "U8"},
        "bob": {"gateway": "telegram", "user_id": "8"},
        "team": {"gateway": "telegram", "chat_id": "-100"},
    }
    config["people"] = {
        "ada": {"role": "owner", "identities": _identities(console="operator", telegram="7")},
        "bob": {"role": "member", "identities": _identities(slack="U8", telegram="8")},
    }
    main = config["agents"]["main"]
    main["defaults"]["dm"] = "phone"
    # with streaming, a message would stop the answer before it
    main |= {"conversations": list(CONVERSATIONS[1:]), "streaming": False}
    config["policy"] = [{"action": "ask", "tools": ["choir.fs.write"], "paths": [LEDGER]}]


def _identities(**users: str) -> list[dict[str, str]]:
    return [{"gateway": gateway, "user": user} for gateway, user in users.items()]


@contextlib.asynccontextmanager
async def running_family() -> AsyncIterator[Family]:
    """Start the stack; everybody has opened the conversations."""
    async with (
        run_fake_telegram() as telegram,
        run_fake_discord() as discord,
        run_fake_slack() as slack,
    ):
        addresses = {
            "telegram": telegram.api_url,
            "discord": discord.api_url,
            "slack": slack.api_url,
        }

        def prepare(home: Path) -> None:
            configure(home, lambda config: _settle(config, addresses))
            tokens = {"telegram-token": BOT_TOKEN, "discord-token": DISCORD_TOKEN}
            slack_tokens = {"slack-token": SLACK_TOKEN, "slack-app-token": APP_TOKEN}
            keep_secrets(home, {**tokens, **slack_tokens})

        telegram.user(7, BOT_TOKEN), telegram.user(8, BOT_TOKEN)
        telegram.group(-100, BOT_TOKEN)
        discord.user(7, DISCORD_TOKEN), slack.user("U8")
        with tempfile.TemporaryDirectory(prefix="choir-score-") as place:
            score = Path(place) / "score.json"
            score.write_text(json.dumps(SCORE))
            async with (
                running_stack_in_thread(score, prepare=prepare) as stack,
                console_user(stack.endpoint) as console,
            ):
                family = Family(stack, telegram, discord, slack, console)
                await family.until_connected()
                yield family
