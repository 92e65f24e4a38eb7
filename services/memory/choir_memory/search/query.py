"""Validate a query, convert its filters to a scope, and time its stages against its deadline."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Protocol

import orjson

from choir_common.clock import Clock
from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.memory_search import MemoryQuery
from choir_memory.search.scope_store import SearchScope

SEARCHED_TIERS = ("mid_term", "long_term_summary", "long_term_detail")
DETAIL_TIERS = ("mid_term", "long_term_detail")
GRAIN_TIERS = ("grain_summary",)
DEFAULT_LIMIT = 10
MAX_LIMIT = 50
MAX_TAGS_BYTES = 4_096
"""Maximum bytes of `tags` as JSON."""


def validate_query(query: MemoryQuery) -> None:
    """Validate the combination of fields; raises InvalidRequest naming the fault."""
    detail = query.mode == "session_detail"
    if detail and (query.store != "session" or query.session_id is None):
        raise InvalidRequest(
            _("session_detail searches one session: it needs store session and a session_id.")
        )
    if not detail and not query.query.strip() and not is_listing(query):
        raise InvalidRequest(
            _(
                "The query must not be blank, unless a grain, a time or an age in days selects what to "
                "list."
            )
        )
    if query.after is not None and (not detail or query.query.strip()):
        raise InvalidRequest(
            _("`after` continues reading a session: it requires mode session_detail and no query.")
        )
    if query.min_score is not None and not query.query.strip():
        raise InvalidRequest(_("`min_score` requires a query: without one there are no scores."))
    _check_store(query)
    check_times(query)
    tags = orjson.dumps(query.tags)
    if len(tags) > MAX_TAGS_BYTES:
        raise InvalidRequest(
            _("`tags` are larger than {max_tags_bytes} bytes.").format(
                max_tags_bytes=MAX_TAGS_BYTES
            )
        )
    if any("\x00" in text for text in _texts(query)) or b"\\u0000" in tags:
        raise InvalidRequest(_("The NUL character cannot be searched for."))


def is_listing(query: MemoryQuery) -> bool:
    """Return whether the newest documents of a grain, a time or an age are listed, without a query."""
    times = (query.since, query.until, query.min_days_ago, query.max_days_ago)
    is_limited = query.grain is not None or any(limit is not None for limit in times)
    return query.mode != "session_detail" and not query.query.strip() and is_limited


def build_scope(query: MemoryQuery, now: datetime) -> SearchScope:
    """Return the scope of documents that this query may find."""
    since, until = time_range(query, now)
    return SearchScope(
        query.target_agent or query.agent_id,
        query.store,
        tiers=_tiers(query),
        session_id=query.session_id,
        exclude_session=query.exclude_session,
        kinds=query.kinds,
        speakers=query.speakers,
        origins=query.origins,
        min_trust=query.min_trust,
        since=since,
        until=until,
        grain=query.grain,
        collection=query.collection,
        tags=orjson.dumps(query.tags).decode() if query.tags else None,
        scopes=query.scopes,
        hidden=query.include,
        reader=query.reader,
    )


class TimeFilter(Protocol):
    """The fields of a request that limit the time of documents."""

    @property
    def since(self) -> datetime | None: ...

    @property
    def until(self) -> datetime | None: ...

    @property
    def min_days_ago(self) -> int | None: ...

    @property
    def max_days_ago(self) -> int | None: ...


def check_times(times: TimeFilter) -> None:
    """Raise InvalidRequest for a range of times or ages that contains nothing."""
    if times.since and times.until and times.since >= times.until:
        raise InvalidRequest(_("`since` is not before `until`."))
    if (
        times.min_days_ago is not None
        and times.max_days_ago is not None
        and times.min_days_ago >= times.max_days_ago
    ):
        raise InvalidRequest(_("`min_days_ago` is not less than `max_days_ago`."))


def time_range(times: TimeFilter, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the start and end that satisfy both the times and the ages."""
    since, until = times.since, times.until
    if times.max_days_ago is not None:
        oldest = now - timedelta(days=times.max_days_ago)
        since = oldest if since is None else max(since, oldest)
    if times.min_days_ago:
        newest = now - timedelta(days=times.min_days_ago)
        until = newest if until is None else min(until, newest)
    return since, until


def effective_limit(query: MemoryQuery) -> int:
    """Return the maximum number of hits; with a token budget it is only an upper limit."""
    return query.limit or (MAX_LIMIT if query.budget_tokens else DEFAULT_LIMIT)


def used_filters(query: MemoryQuery) -> list[str]:
    """Return the names of the filters that were used, for the receipt."""
    filters = (
        *("session_id", "since", "until", "min_days_ago", "max_days_ago", "speakers", "kinds"),
        *("tiers", "grain", "collection", "origins", "min_trust", "tags", "scopes", "include"),
        *("exclude_session", "min_score"),
    )
    return [name for name in filters if getattr(query, name)]


def _check_store(query: MemoryQuery) -> None:
    if query.store == "session":
        if query.collection is not None:
            raise InvalidRequest(
                _("Collections are in the knowledge store: set store to knowledge.")
            )
        if query.grain and query.tiers and "grain_summary" not in query.tiers:
            raise InvalidRequest(_("`grain` implies the tier grain_summary: leave tiers out."))
        return
    if query.session_id is not None:
        raise InvalidRequest(_("Knowledge has no sessions: leave session_id out."))
    for name in ("exclude_session", "speakers", "tiers", "grain"):
        if getattr(query, name):
            raise InvalidRequest(
                _("Knowledge has no {name}: set store to session.").format(name=name)
            )


def _tiers(query: MemoryQuery) -> tuple[str, ...]:
    if query.store == "knowledge":
        return ()
    if query.tiers:
        return query.tiers
    if query.grain:
        return GRAIN_TIERS
    return DETAIL_TIERS if query.mode == "session_detail" else SEARCHED_TIERS


def _texts(query: MemoryQuery) -> Iterable[str]:
    sessions = (query.session_id or "", query.exclude_session or "")
    names = (query.query, *sessions, query.collection or "")
    return (*names, *query.speakers, *query.origins, *query.scopes)


class QueryTimer:
    """Timer for the stages of a query, with its deadline; optional work is cut when the time is up.

    One instance per query.
    """

    def __init__(self, clock: Clock, deadline_s: float) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._deadline_s = deadline_s
        self.cut: list[str] = []
        self.took_ms: dict[str, float] = {}

    def limit(self) -> asyncio.Timeout:
        """Return a timeout for optional work that raises TimeoutError at the query's deadline."""
        return asyncio.timeout(max(0.0, self._deadline_s - self._gone_s()))

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record how long the block took; a block that raises is not recorded."""
        began = self._clock.monotonic()
        yield
        self.took_ms[name] = round((self._clock.monotonic() - began) * 1000, 3)

    @contextlib.contextmanager
    def optional(self, name: str) -> Iterator[None]:
        """Suppress TimeoutError and record the stage as cut."""
        try:
            with self.stage(name):
                yield
        except TimeoutError:
            self.cut.append(name)

    def total_ms(self) -> float:
        """Return the time since the query started."""
        return round(self._gone_s() * 1000, 3)

    def _gone_s(self) -> float:
        return self._clock.monotonic() - self._began
