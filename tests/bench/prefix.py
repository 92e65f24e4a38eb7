"""How much of each prompt the call before it had begun with: the bytes a perfect prefix cache would spare.

Counted by the rehearsal model, byte by byte from the beginning, tools first; no provider's figure, whose
caches work on blocks of tokens and forget.
"""

import httpx2

from tests.support.stack import Stack


async def prefix_shares(stack: Stack) -> dict[str, float]:
    """Return the share by lane, over all requests since the stack's start."""
    async with httpx2.AsyncClient(base_url=stack.rehearsal_url, trust_env=False) as client:
        lanes = (await client.get("/v1/stats")).json()["lanes"]
    return {
        lane: round(prompts["prefix_bytes"] / prompts["prompt_bytes"], 3)
        for lane, prompts in lanes.items()
        if prompts["prompt_bytes"]
    }
