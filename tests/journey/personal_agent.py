"""A person with a phone, her agent, and the model of both; shared by the scenarios of a personal agent.

The model is OpenAI's strict fake, reached through the egress proxy with a key; it follows the rules below.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from choir_common.wire.events import Event, EventPayload, parse_payload
from choir_local.rehearsal.score import Score
from choir_testing.providers.provider import KEY, SECRET
from choir_testing.providers.server import run_provider
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.journey.phone import BOT_TOKEN, TELEGRAM_USER, Prepare
from tests.journey.town import Phone, configure, keep_secrets
from tests.support.scored_provider import ScoredOpenAi
from tests.support.stack import EmbeddedStack, read_log, running_stack_in_thread, sessions_of

P = TypeVar("P", bound=EventPayload)
LEDGER = "ledger.txt"
VAULT_CODE = "vault-canary-7301+/=Zz"
PRIVATE = "zanzibarquokka"
"""A word that only messages and briefings contain."""
TALE = "Once upon a time there was a harbour, and a ferry left it at seven each morning."
POLICY = [
    {"action": "ask", "tools": ["choir.fs.write"], "paths": [LEDGER], "why": "the ledger"},
    {"action": "ask", "tools": ["choir.exec"], "arguments": {"command": "*ledger*"}},
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a step that calls a tool."""
    return {"call": {"name": f"choir.{name}", "arguments": arguments}}


def rule(when: dict[str, Any], *steps: dict[str, Any] | str) -> dict[str, Any]:
    """Return a rule; a step that is text is said."""
    return {"when": when, "then": [{"say": it} if isinstance(it, str) else it for it in steps]}


def spawn(said: str, job_name: str, **more: Any) -> dict[str, Any]:
    """Return the rule that starts a core job."""
    task = f"{said.capitalize()} of {PRIVATE}."
    start = call("core.spawn", job_name=job_name, task_spec=task, **more)
    return rule({"contains": said, "lane": "edge"}, start, "Started: {result.status}.")


def append(text: str) -> dict[str, Any]:
    """Return a step that adds a line to the ledger, for which a person is asked."""
    return call("fs.write", path=LEDGER, content=f"{text}\n", mode="append")


REFUSED = {"tool_result_of": "choir.fs.write", "result_contains": '"refused"'}
SCORE = {
    "rules": [
        rule(
            {"regex": r"Remind me in (\d+) s: (.+)"},
            call(
                "schedule.create", kind="remind", timing="in", value="{match.1}s", text="{match.2}"
            ),
            "I will remind you.",
        ),
        rule(
            {"regex": r"(?s)replies to this message:\n> (?P<quoted>.+?)\n\n.*What about that one"},
            call("exec", command="until [ -e answer-now ]; do sleep 0.1; done"),
            "That one said: {match.quoted}",
        ),
        rule(
            {"regex": "Please remember: (.+)"},
            call("memory.upsert", operation="insert", key="travel.seat", text="{match.1}"),
            "Remembered.",
        ),
        rule({"contains": "which seat do I prefer"}, "A window seat, as you told me."),
        rule({"contains": "tell me the key"}, f"The key is {KEY}, and that is all."),
        rule({"contains": "write down", **REFUSED}, "Not written: {result.output.message}"),
        rule(
            {"regex": "Please write down: (.+)"}, append("{match.1}"), "Written: {result.status}."
        ),
        rule(
            {"regex": "Insist on: (.+)"},
            append("{match.1}"),
            call("exec", command=f"echo {{match.1}} >> {LEDGER}"),
            "Tried twice: {results.0.status}, {results.1.status}.",
        ),
        spawn("watch the harbour", "harbour"),
        spawn("do the impossible", "impossible"),
        spawn("tidy up quietly", "tidy", verbosity="quiet"),
        rule({"lane": "core", "contains": "harbour"}, {"hang": True}),
        rule({"lane": "core", "contains": "impossible"}, {"error": {"status": 400, "times": 0}}),
        rule({"lane": "core", "contains": "tidy"}, "There was nothing to tidy."),
        rule({"contains": "what are you doing"}, call("core.list"), "At work: {result}"),
        rule({"contains": "tell me a tale"}, {"say": TALE, "chunk_delay_ms": 150}),
        rule({"contains": "six times seven"}, "Forty-two."),
        rule({"contains": "six times eight"}, "Forty-eight."),
    ],
    "otherwise": [{"say": "Noted: {user}"}],
}


@dataclass(frozen=True, slots=True)
class PersonalAgent:
    """The agent, its user's phone and its model."""

    stack: EmbeddedStack
    telegram: FakeTelegram
    model: ScoredOpenAi

    @property
    def phone(self) -> Phone:
        """Her chat with the bot."""
        return Phone(self.telegram.user(TELEGRAM_USER, BOT_TOKEN))

    @property
    def ledger(self) -> list[str]:
        """The lines of the file that only consent changes."""
        path = self.stack.home / "workspaces" / "main" / LEDGER
        return path.read_text().splitlines() if path.exists() else []

    def bot_texts_after(self, message_id: int) -> list[str]:
        """The bot's messages that are newer than one."""
        said = self.phone.user.chat.messages.values()
        return [m.text for m in said if m.from_bot and m.message_id > message_id]

    async def events(self) -> list[Event]:
        """Return the log of all sessions, the oldest session first."""
        sessions = reversed(await sessions_of(self.stack))
        return [e for it in sessions for e in await read_log(self.stack, str(it["session_id"]))]

    async def logged(self, kind: type[P]) -> list[P]:
        """Return what the log has of one kind."""
        payloads = [parse_payload(event) for event in await self.events()]
        return [payload for payload in payloads if isinstance(payload, kind)]


@contextlib.asynccontextmanager
async def running_personal_agent() -> AsyncIterator[PersonalAgent]:
    """Start the stack; she has opened her chat with the bot."""
    score = Score.model_validate_json(json.dumps(SCORE))
    async with run_fake_telegram() as telegram, run_provider(ScoredOpenAi(score)) as model:

        def edit(config: dict[str, Any]) -> None:
            config["models"] = {
                "default": {
                    "provider": "openai",
                    "model": model.model,
                    "endpoint": model.endpoint,
                    "secret": SECRET,
                    "temperature": None,
                    "timeout_ms": 60_000,
                }
            }
            config["policy"] = POLICY
            config["rate_limit_retry_ms"] = 20

        def prepare(home: Path) -> None:
            Prepare(telegram.api_url)(home)
            configure(home, edit)
            keep_secrets(home, {SECRET: KEY, "vault-code": VAULT_CODE})

        telegram.user(TELEGRAM_USER, BOT_TOKEN)
        async with running_stack_in_thread(prepare=prepare) as stack:
            yield PersonalAgent(stack, telegram, model)
