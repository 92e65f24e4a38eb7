"""The documents that a search may find, as an SQL condition for the statements of all arms."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Literal

from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.model import readable_sql
from choir_memory.schema.store import qualified

Store = Literal["session", "knowledge"]
Hidden = Literal["held", "retired", "expired"]

_JOINED = "JOIN {documents} d ON d.id = e.document_id"
# the position of a document among its neighbours: in its session, or in its collection
_SESSION_PLACE = "d.session_id AS session_id, d.chunk_index AS chunk_index"
_KNOWLEDGE_PLACE = "d.collection AS session_id, d.chunk_index AS chunk_index"
_SESSION_TIME = "d.happened_at"
_KNOWLEDGE_TIME = "coalesce(d.happened_at, d.valid_from, d.created_at)"

KINDS_ONLY_ON_REQUEST = ("error", "entity")
"""Kinds of knowledge found only if named in `kinds`: tool failures have their own endpoint (hints), and
an entity is only a name."""


@dataclass(frozen=True)
class SearchScope:
    """The documents of one agent that a search may find; None and () do not filter.

    No slots, because of the cached properties.
    """

    agent_id: str
    store: Store
    tiers: tuple[str, ...] = ()
    session_id: str | None = None
    exclude_session: str | None = None
    kinds: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    min_trust: int = 0
    since: datetime | None = None
    until: datetime | None = None
    grain: str | None = None
    collection: str | None = None
    tags: str | None = None
    """JSON that the metadata must contain."""
    scopes: tuple[str, ...] = ()
    """Values of `scope` in the metadata; documents without one are always included."""
    hidden: tuple[Hidden, ...] = ()
    """Statuses to include that are hidden by default."""
    reader: MemoryReader | None = None
    """Whose documents alone are found; None: everybody's."""
    named_kinds: tuple[str, ...] = ()
    """Only for the context of hits: the kinds that its search named."""

    @property
    def is_narrow(self) -> bool:
        """Return whether the search is limited to one session or collection, which an index finds."""
        return self.session_id is not None or self.collection is not None

    @property
    def arguments(self) -> tuple[object, ...]:
        """Return the values of the placeholders in `condition`."""
        return tuple(value for _, value in self._filters)

    def condition(self, first: int) -> str:
        """Return the WHERE clause; its placeholders start at `first`."""
        filters = [
            clause.replace("$", f"${first + at}") for at, (clause, _) in enumerate(self._filters)
        ]
        return " AND ".join([*self._always, *filters]) or "TRUE"

    def sql(self, statement: str, first: int) -> str:
        """Return `statement` for this scope's tables; the placeholders of the condition start at `first`."""
        return _fill(self, statement, first)

    def fill(self, statement: str, first: int) -> str:
        """Do what `sql` does, without its cache: for a caller that caches a statement of its own."""
        session = self.store == "session"
        tables = "memory" if session else "knowledge"
        parts = {
            "{scoped_by_document}": _JOINED,
            "{place}": _SESSION_PLACE if session else _KNOWLEDGE_PLACE,
            "{happened_at}": self._time,
            "{documents}": f"{{schema}}.{tables}_documents",
            "{embeddings}": f"{{schema}}.{tables}_embeddings",
            "{scope}": self.condition(first),
        }
        for name, part in parts.items():
            statement = statement.replace(name, part)
        return qualified(statement, self.agent_id)

    def context_scope(self) -> "SearchScope":
        """Return the scope of what may be shown as context of a hit: of any speaker, kind and time."""
        return SearchScope(
            self.agent_id,
            self.store,
            tiers=self.tiers,
            session_id=self.session_id,
            collection=self.collection,
            min_trust=self.min_trust,
            hidden=self.hidden,
            reader=self.reader,
            named_kinds=self.kinds,
        )

    @property
    def _time(self) -> str:
        return _SESSION_TIME if self.store == "session" else _KNOWLEDGE_TIME

    @cached_property
    def _always(self) -> tuple[str, ...]:
        clauses = []
        if self.store == "knowledge":
            statuses = [
                "active",
                *(status for status in ("held", "retired") if status in self.hidden),
            ]
            clauses.append(f"d.status IN ({', '.join(repr(status) for status in statuses)})")
            hidden_kinds = [kind for kind in KINDS_ONLY_ON_REQUEST if kind not in self.named_kinds]
            if not self.kinds and hidden_kinds:
                clauses.append(f"d.kind NOT IN ({', '.join(repr(kind) for kind in hidden_kinds)})")
            if self.reader is not None:
                # a name belongs to nobody, so nothing says who mentioned it
                clauses.append("d.kind <> 'entity'")
        if "expired" not in self.hidden:
            clauses.append("(d.expires_at IS NULL OR d.expires_at > now())")
            if self.store == "knowledge":
                # the end of a retired document is no second reason to hide it
                clauses.append("(d.status = 'retired' OR d.valid_to IS NULL OR d.valid_to > now())")
        return tuple(clauses)

    @cached_property
    def _filters(self) -> tuple[tuple[str, object], ...]:
        return tuple((clause, value) for clause, value in self._wanted() if value)

    def _wanted(self) -> Iterator[tuple[str, object]]:
        if self.reader is not None:
            yield readable_sql(self.reader), list(self.reader.conversations)
        if self.store == "session":
            yield "d.tier = ANY($::text[])", list(self.tiers)
            yield "d.session_id = $", self.session_id
            yield "d.session_id <> $", self.exclude_session
            yield (
                "lower(d.speaker) = ANY($::text[])",
                [speaker.lower() for speaker in self.speakers],
            )
            yield "d.grain = $", self.grain
        else:
            yield "d.collection = $", self.collection
        yield "d.kind = ANY($::text[])", list(self.kinds)
        yield "d.origin = ANY($::text[])", list(self.origins)
        yield "d.trust >= $", self.min_trust
        if self.grain:
            # a period that began before `since` and ended after it overlaps the range
            yield "coalesce(d.ended_at, d.happened_at) > $", self.since
        else:
            yield f"{self._time} >= $", self.since
        yield f"{self._time} < $", self.until
        yield "d.metadata @> $::jsonb", self.tags
        yield (
            "coalesce(d.metadata ->> 'scope' = ANY($::text[]), true)",
            list(self.scopes),
        )


CACHED_STATEMENTS = 128
"""Statements cached per kind, about 4 KB each. Building one replaces twenty parts of a text of that size, and
an agent's searches repeat a few; those with other values, such as times, displace each other."""


@lru_cache(maxsize=CACHED_STATEMENTS)
def _fill(scope: SearchScope, statement: str, first: int) -> str:
    return scope.fill(statement, first)
