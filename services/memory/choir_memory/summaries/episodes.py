"""Store the summaries of an ended session as documents of knowledge (episodes).

Runs in the transaction that ends the session. The text is the agent's own summary of a conversation; without
one there is no episode, nor for a session in which the user said a single thing. Sentences that rest on less
trusted units are a separate document. Links lead to all units of the session: if one is erased, so are the
episodes that may repeat it.
"""

from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.documents.model import Conversations, document_id
from choir_memory.documents.store import DocumentStore, Link, LinkStore
from choir_memory.knowledge.derived_store import (
    DerivedDocument,
    DerivedDocumentStore,
    prepare_derived,
)
from choir_memory.sessions.archive import EndedSession
from choir_memory.sessions.detail_store import SessionDetailStore
from choir_memory.sessions.trust import TrustedPart, split_by_trust

MIN_USER_TURNS = 2
"""Minimum number of user messages in a session for an episode."""
MAX_EPISODE_CHARS = 4_000
"""Maximum characters; the agent is asked for far fewer."""


class EpisodeWriter:
    """Writer of episodes; has no state."""

    async def store_episode(
        self, connection: Connection, agent_id: str, session: EndedSession
    ) -> list[UUID]:
        """Store a session's episodes; requires the agent's role. Return the ids that need a vector."""
        details = SessionDetailStore(connection, agent_id)
        overview = await details.read_overview(session.session_id)
        texts = _texts(session)
        if not texts or sum(turn.origin == "user" for turn in overview.turns) < MIN_USER_TURNS:
            return []
        grounds = await details.grounds(
            *(session.session_id, overview, [text for _, text in texts], session.inherited),
            lane_trust=session.lane_trust,
        )
        episodes = [
            _build_episode(session, conversations, number, part)
            for conversations, text in texts
            for number, part in enumerate(split_by_trust(text, grounds.sources, grounds.least))
        ]
        document_ids = await DerivedDocumentStore(connection, agent_id).put(
            await prepare_derived(episodes)
        )
        unit_ids = await DocumentStore(connection, agent_id).list_session_ids(session.session_id)
        links = [
            Link(episode.document_id, "rolls_up", unit_id)
            for episode in episodes
            for unit_id in unit_ids
        ]
        await LinkStore(connection, agent_id).add(links)
        return document_ids


def _texts(session: EndedSession) -> list[tuple[Conversations, str]]:
    """Return the summaries with their conversations, without empty ones."""
    summaries = [(session.conversations, session.summary)]
    summaries += [((it.dm,), it.summary) for it in session.further]
    texts = [
        (conversations, summary.replace("\x00", "").strip()[:MAX_EPISODE_CHARS])
        for conversations, summary in summaries
    ]
    return [(conversations, text) for conversations, text in texts if text]


def _build_episode(
    session: EndedSession, conversations: Conversations, number: int, part: TrustedPart
) -> DerivedDocument:
    # the ids of the home conversation's episodes do not name it
    name = [] if conversations == session.conversations else ["of", *(conversations or ())]
    return DerivedDocument(
        document_id=document_id(
            session.session_id, "episode", *name, *([str(number)] if number else [])
        ),
        kind="episode",
        text=part.text,
        origin="derived",
        trust=part.trust,
        happened_at=session.began_at,
        metadata={"session_id": session.session_id},
        conversations=conversations,
    )
