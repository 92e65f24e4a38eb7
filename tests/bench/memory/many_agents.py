"""Concurrent searches over many agents' memories of a thousand documents each, fifty at a time."""

import random

from choir_common.wire.memory_search import EnsureSpace
from tests.bench.memory.corpus import Corpus
from tests.bench.memory.environment import BenchEnvironment
from tests.bench.memory.figures import ConcurrentFigures
from tests.bench.memory.load import load_documents
from tests.bench.memory.searching import AgentQuestion, search_concurrently

DOCUMENTS_EACH = 1_000
"""Documents per agent."""


async def measure_many_agents(
    stage: BenchEnvironment, agents: int, searches: int
) -> ConcurrentFigures:
    """Fill the memories of `agents` agents, then run `searches` searches over all of them."""
    corpus, asked = Corpus(), list[AgentQuestion]()
    for number in range(agents):
        agent = f"crowd_{number}"
        await stage.client.ensure(EnsureSpace(agent_id=agent))
        documents = await load_documents(stage.admin, agent, corpus, DOCUMENTS_EACH)
        each = -(-searches // agents)
        asked += [(agent, one) for one in corpus.questions(documents, each, number)]
    random.Random(5).shuffle(asked)
    return await search_concurrently(stage, asked, agents, DOCUMENTS_EACH)
