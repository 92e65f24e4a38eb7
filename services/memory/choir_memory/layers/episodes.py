"""Keep what a session was about as one document of knowledge, as soon as it has ended (an episode).

Called by `sessions.archive` in the transaction that ends the session. What it says is the agent's own
summary, so a session that ended without one leaves none; one in which the user said a single thing is found
by that. Its links lead to all units of the session: should one be erased, so is what may repeat it.
"""

from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.documents.kinds import TRUST, least_trust
from choir_memory.documents.links_store import Link, LinkStore
from choir_memory.documents.row import document_id
from choir_memory.documents.store import DocumentStore
from choir_memory.layers.known import Known
from choir_memory.layers.known_store import KnownStore, prepare_known
from choir_memory.sessions.archive import Story
from choir_memory.sessions.detail_store import DetailStore

LEAST_TURNS = 2
"""Messages of the user's that make a session worth a story."""
LONGEST = 4_000
"""Characters; the agent is asked for far fewer."""


async def remember_episode(held: Connection, agent_id: str, story: Story) -> list[UUID]:
    """Store a session's episode; `held` is under the agent's role. Return what wants a vector."""
    text = story.summary.replace("\x00", "").strip()[:LONGEST]
    told = await DetailStore(held, agent_id).told(story.session_id)
    if not text or sum(turn.origin == "user" for turn in told.turns) < LEAST_TURNS:
        return []
    sources = [TRUST["agent"], *([] if told.least_trust is None else [told.least_trust])]
    episode = Known(
        document_id=document_id(story.session_id, "episode"),
        kind="episode",
        text=text,
        origin="derived",
        trust=least_trust(sources),
        happened_at=story.began_at,
        metadata={"session_id": story.session_id},
    )
    written = await KnownStore(held, agent_id).put(await prepare_known([episode]))
    units = await DocumentStore(held, agent_id).ids_of_session(story.session_id)
    links = [Link(episode.document_id, "rolls_up", unit) for unit in units]
    await LinkStore(held, agent_id).add(links)
    return written
