"""Commands `choirctl memory status|list|show|search|put|delete|audit|feedback|receipt`.

`export` and `import` are in `memory_export`, `forget` and `undo` in `memory_forget`,
`mode` and `recall` in `memory_mode`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.wire.memory_operator import AuditEntry, DocumentView, PutDocument
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages
from choirctl.api.control import ControlClient, connect
from choirctl.api.memory import JSON_OBJECT, MemoryClient
from choirctl.api.target import AsJson, Home, Target, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, complete_with
from choirctl.commands.memory_export import export, import_
from choirctl.commands.memory_forget import forget, undo
from choirctl.commands.memory_mode import mode, recall
from choirctl.output.memory_views import (
    audit_rows,
    document_facts,
    document_rows,
    feedback_rows,
    hit_rows,
    memory_facts,
    memory_notes,
)
from choirctl.output.printing import (
    format_count,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
)

T = TypeVar("T")
PAGE = 200
NOTHING = "That memory is empty."


async def _sessions(api: ControlClient) -> list[str]:
    return [view.session_id for view in await api.sessions(None, 50)]


Name = Annotated[str, typer.Argument(metavar="DOCUMENT", help="The document's id, or its key.")]
Store = Annotated[
    str,
    typer.Option(
        help="`knowledge`, or `session` for documents of its sessions.",
        autocompletion=lambda: ["knowledge", "session"],
    ),
]
OfSession = Annotated[
    str | None,
    typer.Option(help="Only of this session.", autocompletion=complete_with(_sessions)),
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expect-version", min=0, help="Only if it is at this version.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "memory",
        ("status", status),
        ("list", list_documents),
        ("show", show),
        ("search", search),
        ("put", put),
        ("delete", delete),
        ("forget", forget),
        ("undo", undo),
        ("export", export),
        ("import", import_),
        ("audit", audit),
        ("feedback", feedback),
        ("receipt", receipt),
        ("mode", mode),
        ("recall", recall),
    )


def status(
    ctx: typer.Context, agent: AgentId, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Show the size of an agent's memory, and its queue."""
    state = _ask(find_target(ctx, home, url), agent, lambda memory: memory.status())
    if as_json:
        print_json(state)
    else:
        print_rows(memory_facts(state), NOTHING)
        stderr_console().print(memory_notes(state), markup=False)


def list_documents(
    ctx: typer.Context,
    agent: AgentId,
    store: Store = "knowledge",
    kind: Annotated[str | None, typer.Option(help="Only of this kind: note, fact, turn…")] = None,
    session: OfSession = None,
    prefix: Annotated[str | None, typer.Option(help="Only keys with this prefix.")] = None,
    hidden: Annotated[
        bool,
        typer.Option(
            "--hidden", help="Also documents that no search returns: retired, held, expired."
        ),
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the documents in an agent's memory, newest first.

    Lists knowledge; with --store session, the documents of its sessions.
    """
    filters = {"kind": kind, "session_id": session, "key_prefix": prefix}
    params = {name: value for name, value in filters.items() if value is not None}
    params |= {"store": "session" if session else store, "hidden": str(hidden).lower()}
    documents = _ask(
        find_target(ctx, home, url), agent, lambda memory: _pages(memory, params, limit)
    )
    if as_json:
        print_json(documents)
    else:
        print_rows(document_rows(documents), NOTHING)


def show(
    ctx: typer.Context,
    agent: AgentId,
    document: Name,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show one document completely.

    Prints its text, its origin, its sources and the documents derived from it.
    """
    detail = _ask(find_target(ctx, home, url), agent, lambda memory: memory.document(document))
    if as_json:
        print_json(detail)
        return
    stdout_console().print(document_facts(detail))
    stdout_console().print(f"\n{getattr(detail.record, 'text', '')}", markup=False, highlight=False)


def search(
    ctx: typer.Context,
    agent: AgentId,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    store: Store = "knowledge",
    mode: Annotated[
        str,
        typer.Option(
            help="`semantic`, or `text` for words alone.",
            autocompletion=lambda: ["semantic", "text"],
        ),
    ] = "semantic",
    session: OfSession = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many, best first.")] = 10,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Search an agent's memory as the agent would.

    Shows the score of each hit from each arm of the search, and the id of the receipt.
    """
    request: JsonObject = {"query": query, "mode": mode, "limit": limit}
    request |= {"store": store} if session is None else {"store": "session", "session_id": session}
    results = _ask(find_target(ctx, home, url), agent, lambda memory: memory.search(request))
    if as_json:
        print_json(results)
        return
    print_rows(hit_rows(results.hits), "Nothing was found.")
    for words in (results.degraded, results.receipt_id and f"Receipt: {results.receipt_id}"):
        if words:
            stderr_console().print(words, markup=False)


def put(
    ctx: typer.Context,
    agent: AgentId,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What to remember; else standard input.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Create or replace the document with this key.")
    ] = None,
    document: Annotated[
        str | None, typer.Option("--id", help="Replace the document of this id.")
    ] = None,
    metadata: Annotated[str | None, typer.Option(help="A JSON object about it.")] = None,
    expected: Expected = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write knowledge into an agent's memory as an operator.

    Exits 5 if the document is not at version --expect-version; 0 means that it must not exist yet.
    """
    place = find_target(ctx, home, url)
    body = _document(text if text is not None else _read_stdin(), key, document, metadata, expected)
    result = _ask(place, agent, lambda memory: memory.write(body))
    if as_json:
        print_json(result)
    else:
        version = f", version {result.version}" if result.version else ""
        stderr_console().print(f"{result.operation}: {result.document_id}{version}", markup=False)


def delete(
    ctx: typer.Context,
    agent: AgentId,
    document: Annotated[
        str | None, typer.Argument(metavar="DOCUMENT", help="Its id or key.", show_default=False)
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            help="Instead: all that is remembered of this session.",
            autocompletion=complete_with(_sessions),
        ),
    ] = None,
    expected: Expected = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Erase a document, or all of a session, permanently.

    Also erases documents that only this one supported, vectors, links and mentions in receipts. The log of
    a session stays. Asks for confirmation.
    """
    if (document is None) == (session is None):
        raise InvalidRequest("Name a document or a --session to erase.")
    place = find_target(ctx, home, url)
    if not yes:
        _confirm(place, agent, document, session)
    if session is not None:
        erasure = _ask(place, agent, lambda memory: memory.erase_session(session))
        counts, words = erasure.model_dump(), format_count(erasure.documents, "document")
    else:
        deletion = _ask(place, agent, lambda memory: memory.delete(document or "", expected))
        rest = (
            f" and {format_count(deletion.derived, 'document')} derived from it"
            if deletion.derived
            else ""
        )
        counts, words = (
            deletion.model_dump(),
            f"{format_count(deletion.documents, 'document')}{rest}",
        )
    if as_json:
        print_json(counts)
    else:
        stderr_console().print(f"Erased: {words}.", markup=False)


def audit(
    ctx: typer.Context,
    agent: AgentId,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    before: Annotated[
        int | None, typer.Option(min=1, help="Only those before this number.", show_default=False)
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the audit log of an agent's memory.

    It records writes, reads by operators, and reads by other agents; of documents only the ids.
    """
    entries = _ask(find_target(ctx, home, url), agent, lambda memory: _audit(memory, before, limit))
    if as_json:
        print_json(entries)
    else:
        print_rows(audit_rows(entries), "The audit log of that memory is empty.")


def feedback(
    ctx: typer.Context,
    agent: AgentId,
    session: OfSession = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many, newest first.")] = 50,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what users said about an agent's conduct in its sessions.

    Memory's language model recognizes it (`memory.model`). It is kept apart from what the agent remembers: it
    never becomes a fact or a rule, and no prompt contains it.
    """
    page = _ask(find_target(ctx, home, url), agent, lambda memory: memory.feedback(session, limit))
    if as_json:
        print_json(page.items)
    else:
        print_rows(feedback_rows(page.items), "No feedback was given.")


def receipt(
    ctx: typer.Context,
    agent: AgentId,
    name: Annotated[str, typer.Argument(metavar="RECEIPT", help="The id a search answered with.")],
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the receipt of a search in an agent's memory.

    It contains arms, scores, times and ids, but no text and not the question.
    """
    view = _ask(find_target(ctx, home, url), agent, lambda memory: memory.receipt(name))
    if not as_json:
        stderr_console().print(
            f"{view.at:%Y-%m-%d %H:%M:%S}, asked by {view.asked_by}", markup=False
        )
    print_json(view if as_json else dict(view.receipt))


def _ask(place: Target, agent: str, request: Callable[[MemoryClient], Awaitable[T]]) -> T:
    async def send() -> T:
        async with connect(place) as api:
            return await request(MemoryClient(api, place, agent))

    return asyncio.run(send())


async def _pages(memory: MemoryClient, params: dict[str, str], limit: int) -> list[DocumentView]:
    documents: list[DocumentView] = []
    while len(documents) < limit:
        page = await memory.documents({**params, "limit": str(min(PAGE, limit - len(documents)))})
        documents += page.items
        if page.next is None:
            break
        params = {**params, "cursor": page.next}
    return documents


async def _audit(memory: MemoryClient, before: int | None, limit: int) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    while len(entries) < limit:
        size = min(PAGE, limit - len(entries))
        page = await memory.audit(before, size)
        entries += page.items
        if len(page.items) < size:
            break
        before = page.items[-1].number
    return entries


def _document(
    text: str, key: str | None, document: str | None, metadata: str | None, expected: int | None
) -> PutDocument:
    try:
        about = JSON_OBJECT.validate_json(metadata) if metadata else {}
        return PutDocument(
            text=text, key=key, document_id=document, metadata=about, expected_version=expected
        )
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "metadata"))
        raise InvalidRequest(f"That cannot be written: {faults}.") from None


def _read_stdin() -> str:
    if sys.stdin.isatty():
        stderr_console().print("Enter the text; end with Ctrl-D.", markup=False)
    return sys.stdin.read().strip()


def _confirm(place: Target, agent: str, document: str | None, session: str | None) -> None:
    what = f"everything in {agent}'s memory about session {session}" if session else f"{document}"
    if not sys.stdin.isatty():
        raise InvalidRequest(f"Nobody can be asked whether to erase {what}. Say --yes.")
    if document is not None:
        detail = _ask(place, agent, lambda memory: memory.document(document))
        stdout_console().print(document_facts(detail))
    if not typer.confirm(f"Erase {what} permanently?", err=True):
        raise InvalidRequest("Nothing was erased.")
