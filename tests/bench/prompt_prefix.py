"""Share of each prompt that equals the start of the previous prompt: what a perfect prefix cache would save.

The rehearsal model counts the bytes from the beginning of the request, tools first. Real providers' caches
work on blocks of tokens and expire, so their figures differ.
"""

import json
from pathlib import Path

import httpx2

from tests.support.stack import EmbeddedStack, console_user

TALK = ("#tools=0 hello", "#tools=1 go", "#tools=0 and now?")
TURNS = 60
NEVER_FULL = 100_000


def uncompacted_config(home: Path) -> None:
    """Change the initial config.json in `home` so that the event window is never full."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    config["event_window"] = NEVER_FULL
    path.write_text(json.dumps(config, indent=2))


async def talk_and_measure(stack: EmbeddedStack) -> dict[str, float]:
    """Run `TURNS` turns of a conversation; return its prefix shares."""
    async with console_user(stack.endpoint) as user:
        for number in range(TURNS):
            await user.asks(TALK[number % len(TALK)])
    return await prefix_shares(stack)


async def prefix_shares(stack: EmbeddedStack) -> dict[str, float]:
    """Return the prefix share by lane, over all requests since the stack started."""
    async with httpx2.AsyncClient(base_url=stack.rehearsal_url, trust_env=False) as client:
        lanes = (await client.get("/v1/stats")).json()["lanes"]
    return {
        lane: round(prompts["prefix_bytes"] / prompts["prompt_bytes"], 3)
        for lane, prompts in lanes.items()
        if prompts["prompt_bytes"]
    }
