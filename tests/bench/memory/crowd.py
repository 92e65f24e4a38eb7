"""Concurrent searches over many agents' memories of a thousand documents each, fifty at a time."""

import random

from choir_common.wire.memories import EnsureSpace
from tests.bench.memory.asking import Asked, ask_at_once
from tests.bench.memory.corpus import Corpus
from tests.bench.memory.figures import CrowdFigures
from tests.bench.memory.load import fill
from tests.bench.memory.stage import Stage

CROWDED = 1_000
"""Documents per agent."""


async def measure_crowd(stage: Stage, agents: int, searches: int) -> CrowdFigures:
    """Fill the memories of `agents` agents, then run `searches` searches over all of them."""
    corpus, asked = Corpus(), list[Asked]()
    for number in range(agents):
        agent = f"crowd_{number}"
        await stage.client.ensure(EnsureSpace(agent_id=agent))
        documents = await fill(stage.admin, agent, corpus, CROWDED)
        each = -(-searches // agents)
        asked += [(agent, one) for one in corpus.questions(documents, each, number)]
    random.Random(5).shuffle(asked)
    return await ask_at_once(stage, asked, agents, CROWDED)
