"""Build the summary documents of a promoted session: pure.

One document per topic of the agent's own summary of a conversation. Without a summary (the model was
unavailable, the agent crashed, the conversation was short or one of many) the user's messages are quoted
instead: nothing is invented, and the session can still be found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from choir_memory.documents.model import Conversations, UnitRow, document_id
from choir_memory.sessions.detail_store import Grounds, SessionOverview, TurnText
from choir_memory.sessions.rendering import split_text
from choir_memory.sessions.store import SessionState, StoredTopic
from choir_memory.sessions.trust import TrustSource, is_supported, split_by_trust

SELECTED_CHARS = 2_000
QUOTED_CHARS = 240
SUMMARY_CHARS = 1_500
"""Maximum characters; a longer topic becomes several documents."""


@dataclass(frozen=True, slots=True)
class ConversationTopic:
    """A part of the summary of a session, and the conversation that it is about."""

    title: str
    text: str
    conversations: Conversations
    by_agent: bool


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The summary of a session, and whether the agent wrote a part of it."""

    topics: tuple[ConversationTopic, ...]
    by_agent: bool

    @property
    def texts(self) -> list[str]:
        """Return all titles and texts."""
        return [text for topic in self.topics for text in (topic.title, topic.text)]


def build_summary(
    state: SessionState, overview: SessionOverview, home: Conversations
) -> SessionSummary:
    """Return the agent's own summaries, and a selection of the user's messages where there is none."""
    parts: dict[Conversations, list[StoredTopic]] = {home: _topics(state.summary, state.topics)}
    for it in state.further:
        parts[(it.dm,)] = _topics(it.summary, it.topics)
    topics = [
        ConversationTopic(topic.title, topic.text, conversations, by_agent=True)
        for conversations, own_topics in parts.items()
        for topic in own_topics
    ]
    by_agent = bool(topics)
    turns: dict[Conversations, list[TurnText]] = {}
    for turn in overview.turns:
        turns.setdefault(home if turn.conversations is None else turn.conversations, []).append(
            turn
        )
    for conversations, own_turns in turns.items():
        text = "" if parts.get(conversations) else _selected(own_turns)
        if text:
            topics.append(ConversationTopic("", text, conversations, by_agent=False))
    return SessionSummary(tuple(topics), by_agent)


def build_summary_rows(
    session_id: str,
    state: SessionState,
    overview: SessionOverview,
    summary: SessionSummary,
    grounds: Grounds,
) -> list[UnitRow]:
    """Return the summary documents; none for a session without messages.

    Sentences that rest on less trusted units are a separate document with the least trust.
    """
    pieces = _pieces(summary.topics, grounds.sources, grounds.least)
    return [
        UnitRow(
            document_id=document_id(session_id, "summary", str(index)),
            session_id=session_id,
            tier="long_term_summary",
            chunk_index=index,
            kind="summary",
            text=f"{topic.title}\n{topic.text}" if topic.title else topic.text,
            happened_at=state.started_at,
            ended_at=state.ended_at or overview.until,
            origin="derived",
            trust=trust,
            metadata={"topic": topic.title, "made_by": "agent" if topic.by_agent else "selection"},
            conversations=topic.conversations,
        )
        for index, (topic, trust) in enumerate(pieces)
    ]


def _topics(summary: str, topics: Sequence[StoredTopic]) -> list[StoredTopic]:
    parts = [topic for topic in topics if topic.text.strip()]
    if parts:
        return parts
    return [StoredTopic("", summary)] if summary.strip() else []


def _selected(all_turns: Sequence[TurnText]) -> str:
    """Quote the user's messages, or else the agent's, from the beginning."""
    turns = [turn for turn in all_turns if turn.origin == "user"] or all_turns
    lines: list[str] = []
    remaining = SELECTED_CHARS
    for turn in turns:
        line = f"{turn.speaker}: {' '.join(turn.text.split())[:QUOTED_CHARS]}"
        remaining -= len(line)
        if remaining < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _pieces(
    topics: Sequence[ConversationTopic], sources: Sequence[TrustSource], least: int
) -> Iterator[tuple[ConversationTopic, int]]:
    """Yield the content and the trust of each document."""
    for topic in topics:
        for part in split_by_trust(topic.text.replace("\x00", ""), sources, least):
            # a title that is less trusted than the text below it is left out
            fits = part.trust == least or is_supported(topic.title, sources)
            title = topic.title if fits else ""
            for piece in split_text(part.text, SUMMARY_CHARS):
                yield replace(topic, title=title, text=piece), part.trust
