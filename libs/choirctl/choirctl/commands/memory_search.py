"""Commands `choirctl memory list|search`: find documents with the filters that agents have."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from pydantic import ValidationError

from choir_client import AsyncMemory
from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.memory_operator import DocumentView
from choir_common.wire.memory_search import MemoryHit, MemoryHits
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId
from choirctl.commands.memory_options import (
    JSON_OBJECT,
    NOTHING,
    OfSession,
    SinceTime,
    Store,
    UntilTime,
    send,
)
from choirctl.output.language import server_text
from choirctl.output.memory_views import document_rows, hit_rows
from choirctl.output.printing import print_json, print_rows, stderr_console

NO_MATCH = _("No document of that memory matches.")
PAGE = 200
STORES = ("knowledge", "session")
GRAINS = ("day", "week", "month", "quarter", "year")

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only of this kind: note, fact, turn… Repeatable."),
]
Speakers = Annotated[
    list[str] | None, typer.Option("--speaker", help="Only said by this speaker. Repeatable.")
]
OfGrain = Annotated[
    str | None,
    typer.Option(
        help="Only summaries of a day, week, month, quarter or year.",
        autocompletion=lambda: [*GRAINS],
    ),
]
MinDaysAgo = Annotated[
    int | None, typer.Option(min=0, metavar="DAYS", help="Only at least this old.")
]
MaxDaysAgo = Annotated[
    int | None, typer.Option(min=0, metavar="DAYS", help="Only at most this old.")
]
OfCollection = Annotated[str | None, typer.Option(help="Only documents of this collection.")]
MinTrust = Annotated[int | None, typer.Option(min=0, max=100, help="Only at least this reliable.")]
Tags = Annotated[str | None, typer.Option(help="A JSON object that the metadata must contain.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", help="Only of this `scope` in metadata, or of none. Repeatable."),
]


Prefix = Annotated[str | None, typer.Option(help="Only keys with this prefix.")]
Hidden = Annotated[
    bool,
    typer.Option("--hidden", help="Also what no search returns: retired, held, expired."),
]
ListLimit = Annotated[int, typer.Option(min=1, help="How many, newest first.")]
QueryText = Annotated[
    str, typer.Argument(metavar="QUERY", help="What to look for; else read or list.")
]
SearchedStore = Annotated[
    str,
    typer.Option(
        "--store",
        help="`knowledge`, `session` for documents of its sessions, or `all`.",
        autocompletion=lambda: [*STORES, "all"],
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        help="`semantic`, or `text` for words alone.",
        autocompletion=lambda: ["semantic", "text"],
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        help="Also `held`, `retired` or `expired` documents. Repeatable.",
        autocompletion=lambda: ["held", "retired", "expired"],
    ),
]
MinScore = Annotated[
    float | None, typer.Option(min=0, max=1, help="Only hits with at least this score.")
]
SearchLimit = Annotated[int, typer.Option(min=1, max=50, help="How many, best first.")]


def list_documents(
    ctx: typer.Context,
    agent: AgentId,
    store: Store = "knowledge",
    kinds: Kinds = None,
    session: OfSession = None,
    prefix: Prefix = None,
    speakers: Speakers = None,
    grain: OfGrain = None,
    since: SinceTime = None,
    until: UntilTime = None,
    min_days_ago: MinDaysAgo = None,
    max_days_ago: MaxDaysAgo = None,
    collection: OfCollection = None,
    min_trust: MinTrust = None,
    tags: Tags = None,
    scopes: Scopes = None,
    hidden: Hidden = False,
    limit: ListLimit = 50,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the documents in an agent's memory, newest first.

    Lists knowledge; with --store session, --session, --speaker or --grain, the documents of its sessions.
    """
    filters: dict[str, object] = {
        "kind": kinds,
        "session_id": session,
        "key_prefix": prefix,
        "speaker": speakers,
    }
    filters |= {"grain": grain, "since": since, "until": until, "collection": collection}
    filters |= {"min_days_ago": min_days_ago, "max_days_ago": max_days_ago, "scope": scopes}
    filters |= {"min_trust": min_trust, "tags": tags, "hidden": hidden or None}
    is_limited = any(value for value in filters.values()) or store != "knowledge"
    params = {
        name: _render_parameter(value) for name, value in filters.items() if value is not None
    }
    params["store"] = _chosen_store(store, session, speakers, grain)
    place = find_target(ctx, home, url)
    documents = send(place, agent, lambda memory: _pages(memory, params, limit))
    if as_json:
        print_json(documents)
    else:
        print_rows(document_rows(documents), NO_MATCH if is_limited else NOTHING)


def search(
    ctx: typer.Context,
    agent: AgentId,
    query: QueryText = "",
    store: SearchedStore = "all",
    mode: Mode = "semantic",
    kinds: Kinds = None,
    session: OfSession = None,
    speakers: Speakers = None,
    grain: OfGrain = None,
    since: SinceTime = None,
    until: UntilTime = None,
    min_days_ago: MinDaysAgo = None,
    max_days_ago: MaxDaysAgo = None,
    collection: OfCollection = None,
    min_trust: MinTrust = None,
    tags: Tags = None,
    scopes: Scopes = None,
    include: Include = None,
    min_score: MinScore = None,
    limit: SearchLimit = 10,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Search what an agent knows, and what was said in its sessions.

    Shows the score of each hit from each arm of the search, and the id of the receipt. Without QUERY it
    reads a --session in order, or lists the newest documents of a --grain, a time or an age.
    """
    if session and not query.strip():
        mode = "session_detail"
    filters: dict[str, object] = {"query": query, "mode": mode, "limit": limit, "kinds": kinds}
    filters |= {"session_id": session, "speakers": speakers, "grain": grain, "since": since}
    filters |= {"until": until, "min_days_ago": min_days_ago, "max_days_ago": max_days_ago}
    filters |= {"collection": collection, "min_trust": min_trust, "tags": _parse_tags(tags)}
    filters |= {"scopes": scopes, "include": include, "min_score": min_score}
    stores = _chosen_stores(_chosen_store(store, session, speakers, grain), query)
    request = JSON_OBJECT.validate_python(
        {name: value for name, value in filters.items() if value is not None}
    )

    async def search_stores(memory: AsyncMemory) -> list[MemoryHits]:
        return [await memory.search_by({**request, "store": name}) for name in stores]

    results = send(find_target(ctx, home, url), agent, search_stores)
    _print_hits(results, limit, as_json=as_json)


def _print_hits(results: Sequence[MemoryHits], limit: int, *, as_json: bool) -> None:
    merged = merge_hits(results, limit)
    if as_json:
        print_json(merged)
        return
    print_rows(hit_rows(merged.hits), _("Nothing was found."))
    receipts = [
        _("Receipt: {receipt_id}").format(receipt_id=part.receipt_id)
        for part in results
        if part.receipt_id
    ]
    for words in (server_text(merged.degraded or ""), *receipts):
        if words:
            stderr_console().print(words, markup=False)


def merge_hits(results: Sequence[MemoryHits], limit: int) -> MemoryHits:
    """Return the most relevant hits of searches in several stores, each text once.

    Scores hold within one search only; relevance can be compared. The receipt is that of the search with the
    first hit.
    """
    if len(results) == 1:
        return results[0]
    ranked = sorted(
        ((hit, part) for part in results for hit in part.hits), key=lambda it: -it[0].relevance
    )
    by_text: dict[str, MemoryHit] = {}
    for hit, _part in ranked:
        by_text.setdefault(hit.text, hit)
    first = ranked[0][1] if ranked else results[0]
    return first.model_copy(
        update={
            "hits": tuple(by_text.values())[:limit],
            "arms_used": tuple(dict.fromkeys(arm for part in results for arm in part.arms_used)),
            "degraded": next((part.degraded for part in results if part.degraded), None),
        }
    )


def _chosen_store(
    store: str, session: str | None, speakers: list[str] | None, grain: str | None
) -> str:
    """Return the store; a filter that only sessions have implies that store."""
    return "session" if session or speakers or grain else store


def _chosen_stores(store: str, query: str) -> Sequence[str]:
    """Return the stores to search; only a search for something takes place in both."""
    if store != "all":
        return (store,)
    return STORES if query.strip() else STORES[:1]


def _render_parameter(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(part) for part in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_tags(tags: str | None) -> JsonObject | None:
    if tags is None:
        return None
    try:
        return JSON_OBJECT.validate_json(tags)
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "--tags"))
        raise InvalidRequest(_("That is no JSON object: {faults}.").format(faults=faults)) from None


async def _pages(
    memory: AsyncMemory, params: Mapping[str, str | list[str]], limit: int
) -> list[DocumentView]:
    documents: list[DocumentView] = []
    while len(documents) < limit:
        page = await memory.documents({**params, "limit": str(min(PAGE, limit - len(documents)))})
        documents += page.items
        if page.next is None:
            break
        params = {**params, "cursor": page.next}
    return documents
