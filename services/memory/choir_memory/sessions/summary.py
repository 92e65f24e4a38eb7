"""Build the summary documents of a promoted session: pure.

One document per topic of the agent's own summary. Without a summary (the model was unavailable or the
agent crashed) the user's messages are quoted instead: nothing is invented, and the session can still be
found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from choir_memory.documents.model import UnitRow, document_id
from choir_memory.sessions.detail_store import Grounds, SessionOverview
from choir_memory.sessions.rendering import split_text
from choir_memory.sessions.store import SessionState, StoredTopic
from choir_memory.sessions.trust import TrustSource, is_supported, split_by_trust

SELECTED_CHARS = 2_000
QUOTED_CHARS = 240
SUMMARY_CHARS = 1_500
"""Maximum characters; a longer topic becomes several documents."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The summary of a session, and whether the agent wrote it."""

    topics: tuple[StoredTopic, ...]
    by_agent: bool

    @property
    def texts(self) -> list[str]:
        """Return all titles and texts."""
        return [text for topic in self.topics for text in (topic.title, topic.text)]


def build_summary(state: SessionState, overview: SessionOverview) -> SessionSummary:
    """Return the agent's own summary, or else a selection of the user's messages."""
    by_agent = _topics(state)
    return SessionSummary(tuple(by_agent or _selected(overview)), bool(by_agent))


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
            text=text,
            happened_at=state.started_at,
            ended_at=state.ended_at or overview.until,
            origin="derived",
            trust=trust,
            metadata={"topic": title, "made_by": "agent" if summary.by_agent else "selection"},
        )
        for index, (title, text, trust) in enumerate(pieces)
    ]


def _topics(state: SessionState) -> list[StoredTopic]:
    topics = [topic for topic in state.topics if topic.text.strip()]
    if topics:
        return topics
    return [StoredTopic("", state.summary)] if state.summary.strip() else []


def _selected(overview: SessionOverview) -> list[StoredTopic]:
    """Quote the user's messages, or else the agent's, from the beginning."""
    turns = [turn for turn in overview.turns if turn.origin == "user"] or list(overview.turns)
    lines: list[str] = []
    remaining = SELECTED_CHARS
    for turn in turns:
        line = f"{turn.speaker}: {' '.join(turn.text.split())[:QUOTED_CHARS]}"
        remaining -= len(line)
        if remaining < 0:
            break
        lines.append(line)
    return [StoredTopic("", "\n".join(lines))] if lines else []


def _pieces(
    topics: Sequence[StoredTopic], sources: Sequence[TrustSource], least: int
) -> Iterator[tuple[str, str, int]]:
    """Yield title, text and trust of each document."""
    for topic in topics:
        for part in split_by_trust(topic.text.replace("\x00", ""), sources, least):
            # a title that is less trusted than the text below it is left out
            fits = part.trust == least or is_supported(topic.title, sources)
            title = topic.title if fits else ""
            for piece in split_text(part.text, SUMMARY_CHARS):
                yield title, f"{title}\n{piece}" if title else piece, part.trust
