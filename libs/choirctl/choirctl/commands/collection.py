"""Commands `choirctl collection add|list|remove`: documents that an agent can search."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.markup import escape
from rich.table import Table

from choir_common.errors import InvalidRequest
from choir_common.wire.memory_collections import (
    MAX_DOCUMENT,
    CollectionDocument,
    CollectionDocuments,
    DocumentAdded,
    DocumentsRemoved,
    NewDocument,
)
from choirctl.api.control import connect, parse_response
from choirctl.api.target import AsJson, Home, Target, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId
from choirctl.output.printing import (
    format_age,
    format_count,
    print_json,
    print_rows,
    stderr_console,
    table,
)

LONG_S = 60.0

Collection = Annotated[str, typer.Argument(metavar="COLLECTION", help="The collection's name.")]
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Text or Markdown, in UTF-8.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "collection", ("add", add), ("list", list_documents), ("remove", remove))


def add(
    ctx: typer.Context,
    agent: AgentId,
    collection: Collection,
    files: Files,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add documents to an agent's memory.

    Each replaces the document with the same file name in the collection; unchanged text changes nothing.
    """
    documents = [_read(file) for file in files]
    results = asyncio.run(_add(find_target(ctx, home, url), agent, collection, documents))
    if as_json:
        print_json(results)
        return
    for document, result in zip(documents, results, strict=True):
        stderr_console().print(
            f"{document.name}: {result.operation}, {format_count(result.chunks, 'piece')}",
            markup=False,
        )


def list_documents(
    ctx: typer.Context,
    agent: AgentId,
    collection: Annotated[str | None, typer.Option(help="Only of this collection.")] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the documents in an agent's collections."""
    documents = asyncio.run(_list(find_target(ctx, home, url), agent, collection))
    if as_json:
        print_json(documents)
    else:
        print_rows(_rows(documents), "That agent has no collections.")


def remove(
    ctx: typer.Context,
    agent: AgentId,
    collection: Collection,
    document: Annotated[
        str | None, typer.Option(help="Only this document.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Erase a collection, or one document of it, permanently.

    Asks for confirmation.
    """
    what = f"document {document} of collection {collection}" if document else f"all of {collection}"
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidRequest(f"Nobody can be asked whether to erase {what}. Say --yes.")
        typer.confirm(f"Erase {what} permanently?", abort=True, err=True)
    result = asyncio.run(_remove(find_target(ctx, home, url), agent, collection, document))
    if as_json:
        print_json(result)
    else:
        stderr_console().print(
            f"Erased: {format_count(result.documents, 'document')}.", markup=False
        )


def _read(file: Path) -> NewDocument:
    try:
        text = file.read_text("utf-8").replace("\x00", "")
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file} is not UTF-8 text; convert it first.") from error
    if not 0 < len(text) <= MAX_DOCUMENT:
        raise InvalidRequest(
            f"{file} has {len(text):,} characters; a document has 1 to {MAX_DOCUMENT:,}. Split a "
            "longer one into its chapters."
        )
    return NewDocument(name=file.name[:200], text=text)


def _rows(documents: Sequence[CollectionDocument]) -> Table:
    rows = table("COLLECTION", "DOCUMENT", "CHARACTERS", "PIECES", "ADDED")
    for document in documents:
        names = (escape(document.collection), escape(document.name))
        rows.add_row(
            *names, f"{document.characters:,}", str(document.chunks), format_age(document.added_at)
        )
    return rows


def _path(agent: str, collection: str | None = None) -> str:
    path = f"/v1/agents/{quote(agent, safe='')}/collections"
    return path if collection is None else f"{path}/{quote(collection, safe='')}"


async def _add(
    place: Target, agent: str, collection: str, documents: Sequence[NewDocument]
) -> list[DocumentAdded]:
    results: list[DocumentAdded] = []
    async with connect(place) as api:
        for document in documents:
            path = _path(agent, collection)
            answer = await api.send("POST", path, body=document, timeout_s=LONG_S)
            results.append(parse_response(answer, DocumentAdded))
    return results


async def _list(place: Target, agent: str, collection: str | None) -> list[CollectionDocument]:
    params = {} if collection is None else {"collection": collection}
    async with connect(place) as api:
        answer = await api.send("GET", _path(agent), params=params)
    return list(parse_response(answer, CollectionDocuments).documents)


async def _remove(
    place: Target, agent: str, collection: str, document: str | None
) -> DocumentsRemoved:
    params = {} if document is None else {"document": document}
    async with connect(place) as api:
        answer = await api.send("DELETE", _path(agent, collection), params=params)
    return parse_response(answer, DocumentsRemoved)
