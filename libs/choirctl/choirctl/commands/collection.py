"""Commands `choirctl collection add|list|remove`: documents and folders that an agent can search."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _, ngettext
from choir_common.target import Target
from choir_common.wire.memory_collections import (
    CollectionDocument,
    CollectionView,
    DocumentAdded,
    DocumentsRemoved,
)
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId
from choirctl.output.collection_views import (
    collection_rows,
    describe_collection,
    document_rows,
    show_scan,
)
from choirctl.output.printing import confirm, print_json, print_rows, stderr_console

PAGE = 1_000

Collection = Annotated[str, typer.Argument(metavar="COLLECTION", help="The collection's name.")]
Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...|FOLDER",
        help="Text in UTF-8, source code, HTML, PDF or Office files, or one folder.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "collection", ("add", add), ("list", list_collections), ("remove", remove))


def add(
    ctx: typer.Context,
    agent: AgentId,
    collection: Collection,
    files: Files,
    folder: Annotated[
        bool, typer.Option("--folder", help="The path is a folder where Choir runs, not here.")
    ] = False,
    wait: Annotated[
        bool, typer.Option(help="Wait until the files of a folder have been read.")
    ] = True,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add documents, or let a collection follow a folder.

    The memory service reads the text of files: text, source code, Markdown, HTML, PDF and Office files. A
    file replaces the document with the same file name in the collection; unchanged text changes nothing.
    A folder is read now and whenever its files change. Adding it again tries again what could not be read.
    With docker compose the folder must be below CHOIR_COLLECTIONS.
    """
    place = find_target(ctx, home, url)
    if folder or any(file.is_dir() for file in files):
        if len(files) > 1:
            raise InvalidRequest(_("A collection follows one folder. Name the folder alone."))
        path = str(files[0] if folder else files[0].resolve())
        view = asyncio.run(_follow(place, agent, collection, path, wait=wait))
        if as_json:
            print_json(view)
        else:
            stderr_console().print(describe_collection(view), markup=False)
        return
    for file in files:
        _require_readable(file)
    results = asyncio.run(_add(place, agent, collection, files))
    if as_json:
        print_json(results)
        return
    for file, result in zip(files, results, strict=True):
        stderr_console().print(
            _("{name}: {operation}, {count}").format(
                name=file.name,
                operation=result.operation,
                count=ngettext("{count} piece", "{count} pieces", result.chunks),
            ),
            markup=False,
        )


def list_collections(
    ctx: typer.Context,
    agent: AgentId,
    collection: Annotated[
        str | None, typer.Option(help="Show the documents of this collection.", show_default=False)
    ] = None,
    unreadable: Annotated[
        bool, typer.Option("--unreadable", help="Only files that could not be read.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Documents to show.")] = PAGE,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List an agent's collections, or the documents of one.

    For a collection that follows a folder, this shows how far its files have been read.
    """
    place = find_target(ctx, home, url)
    if collection is None:
        if unreadable:
            raise InvalidRequest(_("--unreadable needs --collection NAME."))
        views = asyncio.run(_list_collections(place, agent))
        if as_json:
            print_json(views)
        else:
            print_rows(collection_rows(views), _("That agent has no collections."))
        return
    documents = asyncio.run(_list_documents(place, agent, collection, unreadable, limit))
    if as_json:
        print_json(documents)
    else:
        print_rows(document_rows(documents), _("There are no such documents."))


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
    what = (
        _("document {document} of collection {collection}").format(
            document=document, collection=collection
        )
        if document
        else _("all of {collection}").format(collection=collection)
    )
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidRequest(
                _("Nobody can be asked whether to erase {what}. Say --yes.").format(what=what)
            )
        confirm(_("Erase {what} permanently?").format(what=what), abort=True)
    result = asyncio.run(_remove(find_target(ctx, home, url), agent, collection, document))
    if as_json:
        print_json(result)
    else:
        stderr_console().print(
            _("Erased: {count}.").format(
                count=ngettext("{count} document", "{count} documents", result.documents)
            ),
            markup=False,
        )


def _require_readable(file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise InvalidRequest(
            _("{file} cannot be read: {strerror}.").format(file=file, strerror=error.strerror)
        ) from error


async def _add(
    place: Target, agent: str, collection: str, files: Sequence[Path]
) -> list[DocumentAdded]:
    async with connect(place) as api:
        return [await api.collections(agent).add(collection, file) for file in files]


async def _follow(
    place: Target, agent: str, collection: str, folder: str, *, wait: bool
) -> CollectionView:
    if not folder.startswith("/"):
        raise InvalidRequest(
            _("{folder} is not an absolute path, which --folder needs.").format(folder=folder)
        )
    async with connect(place) as api:
        view = await api.collections(agent).follow(collection, folder)
        if not wait:
            return view
        try:
            return await show_scan(api, agent, view)
        except asyncio.CancelledError:
            stderr_console().print(
                _(
                    "The files are read in the background: `choirctl collection list {agent}`."
                ).format(agent=agent),
                markup=False,
            )
            raise


async def _list_collections(place: Target, agent: str) -> list[CollectionView]:
    async with connect(place) as api:
        return await api.collections(agent).list()


async def _list_documents(
    place: Target, agent: str, collection: str, unreadable: bool, limit: int
) -> list[CollectionDocument]:
    async with connect(place) as api:
        group = api.collections(agent)
        return await group.documents(collection, unreadable=unreadable, limit=limit)


async def _remove(
    place: Target, agent: str, collection: str, document: str | None
) -> DocumentsRemoved:
    async with connect(place) as api:
        return await api.collections(agent).remove(collection, document)
