"""Everything that a memory contains, in a form in which two installations can be compared.

Ids become the content that they stand for, and times of the test run become a word: the rest must be equal.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import MemoryHit, MemoryQuery
from tests.faults.year.steps import AGENT, COLLECTION
from tests.faults.year.texts import LANGUAGES
from tests.service.memory.servers import MemoryProcess

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)")
RUN = timedelta(days=2)
"""Times that are less than this away are those of the test run."""
SCORE_TOLERANCE = 0.005
"""Term weights come from Postgres' statistics, which depend on the order of the rows."""
LIMIT = 20
DOCUMENTS = {
    "session": "SELECT to_jsonb(d)::text FROM choir_main.memory_documents d",
    # positions in a collection are as arbitrary as ids; the order in a document is in its metadata
    "knowledge": """
        SELECT (to_jsonb(d) - CASE WHEN collection IS NULL THEN '' ELSE 'chunk_index' END)::text
        FROM choir_main.knowledge_documents d
    """,
}
TABLES = {
    "links": "SELECT to_jsonb(l)::text FROM choir_main.links l",
    "vectors": """
        SELECT jsonb_build_object('of', e.document_id, 'model', m.name, 'part', e.part,
            'vector', md5(e.embedding::text))::text
        FROM (SELECT * FROM choir_main.memory_embeddings
              UNION ALL SELECT * FROM choir_main.knowledge_embeddings) e
        JOIN choir_memory.embedding_models m ON m.id = e.model
    """,
    "sessions": "SELECT to_jsonb(s)::text FROM choir_memory.sessions s",
    # `at` is when the last turn was stored
    "cursors": """
        SELECT jsonb_build_object('name', name, 'position', position - 'at')::text
        FROM choir_memory.cursors
    """,
    "feedback": "SELECT to_jsonb(f)::text FROM choir_memory.session_feedback f",
    "folders": """
        SELECT (to_jsonb(f) - ARRAY['path', 'due_at'])::text FROM choir_memory.folders f
    """,
    "files": """
        SELECT (to_jsonb(f) - ARRAY['id', 'first_chunk'])::text FROM choir_memory.folder_files f
    """,
    "models": """
        SELECT jsonb_build_object('name', name, 'dimensions', dimensions, 'state', state)::text
        FROM choir_memory.embedding_models
    """,
    "queue": "SELECT to_jsonb(q)::text FROM choir_memory.embedding_queue q",
}

Dump = Mapping[str, Sequence[str]]


async def dump_memory(database: Database) -> Dump:
    """Return all rows by table, each as sorted JSON lines."""
    rows = {name: await _read(database, sql) for name, sql in DOCUMENTS.items()}
    labels = {str(row["id"]): _label(name, row) for name, found in rows.items() for row in found}
    rows |= {name: await _read(database, sql) for name, sql in TABLES.items()}
    now = datetime.now(UTC)
    return {
        name: sorted(_normalise(json.dumps(row, sort_keys=True), labels, now) for row in found)
        for name, found in rows.items()
    }


async def refresh_statistics(database: Database) -> None:
    """Let the statistics that a search uses depend on the rows alone, not on their history."""
    for table in ("memory_documents", "knowledge_documents"):
        await database.execute(f"VACUUM (FULL, ANALYZE) choir_main.{table}")


async def _read(database: Database, sql: str) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in await database.fetch(sql)]


def _label(store: str, row: Mapping[str, Any]) -> str:
    """Return what identifies a document by its content."""
    names = (
        "session_id",
        "chunk_index",
        "grain",
        "period",
        "kind",
        "key",
        "subject",
        "predicate",
        "object",
    )
    parts = [row.get(name) for name in names]
    if store == "knowledge" and row["collection"] is not None:
        parts.append(row["collection"])
    content = json.dumps([*parts, row["text"]])
    return f"{store}-{sha256(content.encode()).hexdigest()[:16]}"


def _normalise(line: str, labels: Mapping[str, str], now: datetime) -> str:
    line = UUID.sub(lambda match: labels.get(match[0], "(an id)"), line)
    return TIME.sub(lambda match: _normalise_time(datetime.fromisoformat(match[0]), now), line)


def _normalise_time(at: datetime, now: datetime) -> str:
    return "(during the run)" if abs(at - now) < RUN else at.isoformat()


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits of a search with their scores; documents of equal score have no order."""

    question: MemoryQuery
    scores: Mapping[str, float]

    @property
    def certain(self) -> set[str]:
        """Return the hits that were not chosen among equals at the end of a full list."""
        if len(self.scores) < LIMIT or not self.question.query:
            return set(self.scores)
        least = min(self.scores.values()) + SCORE_TOLERANCE
        return {hit for hit, score in self.scores.items() if score > least}

    def differs(self, other: "Answer") -> str:
        """Return how another answer to this question differs, or an empty text."""
        missing = self.certain - other.scores.keys()
        added = other.certain - self.scores.keys()
        if missing or added:
            return f"{self.question}: only here {missing}, only there {added}"
        apart = [
            hit
            for hit in self.certain & other.certain
            if abs(self.scores[hit] - other.scores[hit]) > SCORE_TOLERANCE
        ]
        return f"{self.question}: other scores of {apart}" if apart else ""


def make_questions() -> list[MemoryQuery]:
    """Return the searches whose answers are compared."""
    texts = [language.question for language in LANGUAGES.values()]
    texts += ["bin of the home", "rota offer shed", "make build failed", "word of the day otter"]
    questions = [
        _question(store=store, mode=mode, query=text)
        for text in texts
        for store in ("knowledge", "session")
        for mode in ("semantic", "text")
    ]
    for grain in ("day", "week", "month", "quarter", "year"):
        questions.append(_question(store="session", grain=grain))
        questions.append(_question(store="session", grain=grain, query="match on Sunday"))
    questions += [
        _question(store="knowledge", query="What does the user like?", include=("held", "retired")),
        _question(store="knowledge", query="offer rota", include=("expired",)),
        _question(store="knowledge", query="spare key boiler sledge attic", collection=COLLECTION),
        _question(store="knowledge", query="warranty", collection="papers"),
        _question(store="knowledge", query="stale cache", kinds=("error",)),
        _question(store="session", query="How was it two weeks ago?"),
        _question(store="session", query="match", max_days_ago=20),
        _question(store="session", query="match", min_days_ago=10, context=True),
    ]
    return questions


def _question(**more: object) -> MemoryQuery:
    fields = {"agent_id": AGENT, "limit": LIMIT, "deadline_ms": 9_000}
    return MemoryQuery.model_validate(fields | more)


async def ask(memory: MemoryProcess, question: MemoryQuery) -> Answer:
    """Search once."""
    hits = await memory.client.query(question)
    assert hits.degraded is None and hits.cut == (), question
    now = datetime.now(UTC)
    return Answer(question, {_render(hit, now): hit.score for hit in hits.hits})


def _render(hit: MemoryHit, now: datetime) -> str:
    # the session and time of one of several equal texts are those of the newest
    return json.dumps(
        [
            hit.kind,
            hit.status,
            hit.text,
            _normalise_time(hit.happened_at, now) if hit.happened_at else None,
            hit.session_id,
            hit.times,
            hit.period,
        ]
    )
