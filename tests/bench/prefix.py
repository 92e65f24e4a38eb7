"""How much of each prompt the call before it had begun with: the bytes a perfect prefix cache would spare.

Counted by the rehearsal model, byte by byte from the beginning, tools first; no provider's figure, whose
caches work on blocks of tokens and forget.
"""

import json
from pathlib import Path

import httpx2

from tests.support.stack import Stack, user_at

TALK = ("#tools=0 hello", "#tools=1 go", "#tools=0 and now?")
TURNS = 60
NEVER_FULL = 100_000


def uncompacted_config(home: Path) -> None:
    """Rewrite the starter config in `home` for a window that nothing ever rolls off."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    config["event_window"] = NEVER_FULL
    path.write_text(json.dumps(config, indent=2))


async def talk_and_measure(stack: Stack) -> dict[str, float]:
    """Hold a conversation; return its shares."""
    async with user_at(stack.endpoint) as user:
        for number in range(TURNS):
            await user.asks(TALK[number % len(TALK)])
    return await prefix_shares(stack)


async def prefix_shares(stack: Stack) -> dict[str, float]:
    """Return the share by lane, over all requests since the stack's start."""
    async with httpx2.AsyncClient(base_url=stack.rehearsal_url, trust_env=False) as client:
        lanes = (await client.get("/v1/stats")).json()["lanes"]
    return {
        lane: round(prompts["prefix_bytes"] / prompts["prompt_bytes"], 3)
        for lane, prompts in lanes.items()
        if prompts["prompt_bytes"]
    }
