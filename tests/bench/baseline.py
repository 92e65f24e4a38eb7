"""The baseline ("floor") for turns: the minimal cost of a durable turn, implemented by hand.

It sends the same requests as the agent to the same model server, with one Postgres commit per step (the
user's message, each model output with its tool results, the last answer). It has no isolation, no channels
and no locks.
"""

import json
import os
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx2

# messages in the prompt, as in the agent's event window
WINDOW = 50


@dataclass
class BaselineAgent:
    """A conversation implemented as a loop of model calls and commits."""

    model: httpx2.AsyncClient
    pool: "asyncpg.Pool[asyncpg.Record]"
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    conversation: str = field(default_factory=lambda: os.urandom(8).hex())
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def prepare(self) -> None:
        """Create the table."""
        await self.pool.execute(
            "CREATE TABLE IF NOT EXISTS public.floor_messages (id bigserial PRIMARY KEY, "
            "conversation text, body jsonb, at timestamptz DEFAULT now())"
        )

    async def turn(self, text: str) -> str:
        """Run one turn for the user's message `text`; return the answer."""
        self._cut()
        await self._keep({"role": "user", "content": text})
        while True:
            answer = await self.model.post(
                "/chat/completions",
                json={
                    "model": "rehearsal",
                    "messages": [*self.system, *self.messages],
                    "tools": self.tools,
                },
            )
            said = answer.json()["choices"][0]["message"]
            calls = said.get("tool_calls") or []
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": '{"text": "42"}'}
                for call in calls
            ]
            await self._keep(said, *results)
            if not calls:
                return str(said["content"])

    def _cut(self) -> None:
        while len(self.messages) > WINDOW or (self.messages and self.messages[0]["role"] != "user"):
            del self.messages[0]

    async def _keep(self, *messages: dict[str, Any]) -> None:
        self.messages += messages
        async with self.pool.acquire() as held, held.transaction():
            await held.executemany(
                "INSERT INTO public.floor_messages (conversation, body) VALUES ($1, $2)",
                [(self.conversation, json.dumps(message)) for message in messages],
            )
