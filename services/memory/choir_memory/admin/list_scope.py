"""Validate a list's filters and convert them to the scope of documents that it shows: pure."""

from datetime import datetime
from typing import get_args

import orjson

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.memory_operator import ListMemory
from choir_common.wire.memory_search import HiddenStatus
from choir_memory.search.query import check_times, time_range
from choir_memory.search.scope_store import KINDS_ONLY_ON_REQUEST, SearchScope

_OF_SESSIONS = ("session_id", "speakers", "grain")
_OF_KNOWLEDGE = ("key_prefix", "collection")


def validate_list(request: ListMemory) -> None:
    """Raise InvalidRequest for filters that the store does not have, or that contradict each other."""
    other = _OF_SESSIONS if request.store == "knowledge" else _OF_KNOWLEDGE
    for name in other:
        if getattr(request, name):
            store = "session" if request.store == "knowledge" else "knowledge"
            raise InvalidRequest(
                _("Only the store `{store}` has {name}: set the store to `{store}`.").format(
                    store=store, name=name
                )
            )
    check_times(request)
    texts = (request.session_id, request.key_prefix, request.collection)
    labels = (*request.speakers, *request.scopes)
    has_nul = any("\x00" in text for text in (*texts, *labels) if text)
    if has_nul or b"\\u0000" in orjson.dumps(request.tags):
        raise InvalidRequest(_("The NUL character cannot be searched for."))


def list_scope(request: ListMemory, now: datetime) -> SearchScope:
    """Return the scope of a list; unlike a search it shows every kind and tier by default."""
    since, until = time_range(request, now)
    return SearchScope(
        request.agent_id,
        request.store,
        session_id=request.session_id,
        kinds=request.kinds,
        speakers=request.speakers,
        min_trust=request.min_trust,
        since=since,
        until=until,
        grain=request.grain,
        collection=request.collection,
        tags=orjson.dumps(request.tags).decode() if request.tags else None,
        scopes=request.scopes,
        hidden=get_args(HiddenStatus) if request.hidden else (),
        named_kinds=KINDS_ONLY_ON_REQUEST,
    )
