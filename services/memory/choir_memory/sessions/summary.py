"""Make the documents that stand for a session in long-term memory: pure. Called by `promote`.

The agent's own summary, a document a topic. Without one, because the model was away or the agent crashed,
what the user asked for is quoted instead: nothing is invented, and the session can still be found.
"""

from collections.abc import Iterator

from choir_memory.documents.kinds import TRUST, least_trust
from choir_memory.documents.row import Row, document_id
from choir_memory.sessions.detail_store import Told
from choir_memory.sessions.store import SessionState, Topic
from choir_memory.sessions.wording import parts

SELECTED_CHARS = 2_000
QUOTED_CHARS = 240
SUMMARY_CHARS = 1_500
"""A longer topic becomes several documents."""


def summary_rows(session_id: str, state: SessionState, told: Told) -> list[Row]:
    """Return the documents, none for a session in which nobody said anything."""
    by_agent = _topics(state)
    topics = by_agent or _selected(told)
    trust = least_trust([TRUST["agent"], *([] if told.least_trust is None else [told.least_trust])])
    return [
        Row(
            document_id=document_id(session_id, "summary", str(index)),
            session_id=session_id,
            tier="long_term_summary",
            chunk_index=index,
            kind="summary",
            text=text,
            happened_at=state.started_at,
            ended_at=state.ended_at or told.until,
            origin="derived",
            trust=trust,
            metadata={"topic": title, "made_by": "agent" if by_agent else "selection"},
        )
        for index, (title, text) in enumerate(_pieces(topics))
    ]


def _topics(state: SessionState) -> list[Topic]:
    topics = [topic for topic in state.topics if topic.text.strip()]
    if topics:
        return topics
    return [Topic("", state.summary)] if state.summary.strip() else []


def _selected(told: Told) -> list[Topic]:
    """Quote what the user said, or else what the agent did, from the beginning."""
    chosen = [turn for turn in told.turns if turn.origin == "user"] or list(told.turns)
    lines: list[str] = []
    room = SELECTED_CHARS
    for turn in chosen:
        line = f"{turn.speaker}: {' '.join(turn.text.split())[:QUOTED_CHARS]}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return [Topic("", "\n".join(lines))] if lines else []


def _pieces(topics: list[Topic]) -> Iterator[tuple[str, str]]:
    for topic in topics:
        for piece in parts(topic.text.replace("\x00", ""), SUMMARY_CHARS):
            yield topic.title, f"{topic.title}\n{piece}" if topic.title else piece
