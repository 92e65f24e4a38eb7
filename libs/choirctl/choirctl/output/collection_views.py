"""Tables of collections and their documents, and the progress of a folder that is being read."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from choir_common.errors import NotFound, Unavailable
from choir_common.wire.memory_collections import (
    CollectionDocument,
    CollectionView,
    FolderProgress,
)
from choirctl.api.control import ControlClient
from choirctl.output.printing import format_age, format_count, stderr_console, table

POLL_S = 1.0
LINE_S = 10.0
"""Seconds between lines of progress where there is no terminal."""


def collection_rows(views: Sequence[CollectionView]) -> Table:
    """Return a table with one row per collection."""
    rows = table("COLLECTION", "DOCUMENTS", "PIECES", "FOLDER", "STATE")
    for view in views:
        folder = escape(view.folder.path) if view.folder else "-"
        counts = (str(view.documents), str(view.chunks))
        rows.add_row(escape(view.name), *counts, folder, escape(describe_state(view)))
    return rows


def document_rows(documents: Sequence[CollectionDocument]) -> Table:
    """Return a table with one row per document or unreadable file."""
    rows = table("DOCUMENT", "CHARACTERS", "PIECES", "ADDED", "PROBLEM")
    for document in documents:
        age = format_age(document.added_at) if document.added_at else "not read yet"
        counts = (f"{document.characters:,}", str(document.chunks))
        rows.add_row(escape(document.name), *counts, age, escape(document.problem or "-"))
    return rows


def describe_collection(view: CollectionView) -> str:
    """Return a sentence about a collection that follows a folder."""
    return f"{view.name}: {format_count(view.documents, 'document')}, {describe_state(view)}."


def describe_state(view: CollectionView) -> str:
    """Return the state of a collection's folder as text."""
    folder = view.folder
    if folder is None:
        return "added one by one"
    parts = [f"{folder.state} (scanned {format_age(folder.scanned_at)} ago)"]
    if folder.scanned_at is None:
        parts = [folder.state]
    if folder.waiting:
        parts.append(f"{folder.waiting:,} of {format_count(folder.files, 'file')} to be read")
    if folder.unreadable:
        parts.append(f"{format_count(folder.unreadable, 'file')} not readable")
    if folder.problem:
        parts.append(folder.problem.rstrip("."))
    return ", ".join(parts)


async def show_scan(api: ControlClient, agent: str, before: CollectionView) -> CollectionView:
    """Show the progress of a folder's scan until it ends; return the collection then.

    A terminal gets a bar, any other output a line every ten seconds. Raises Unavailable if the folder cannot
    be scanned, NotFound if the collection was removed.
    """
    earlier = before.folder.scanned_at if before.folder else None
    with ScanProgress() as progress:
        while True:
            views = [it for it in await api.collections(agent).list() if it.name == before.name]
            if not views or views[0].folder is None:
                raise NotFound(f"The collection {before.name} was removed.")
            folder = views[0].folder
            if folder.state == "unreachable":
                raise Unavailable(f"{folder.path} cannot be scanned. {folder.problem}")
            if folder.state == "current" and folder.scanned_at != earlier:
                return views[0]
            progress.show(folder)
            await asyncio.sleep(POLL_S)


class ScanProgress(contextlib.AbstractContextManager["ScanProgress"]):
    """The progress of a scan on stderr."""

    def __init__(self) -> None:
        self._console = stderr_console()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(
            *columns,
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("looking for files", total=None)
        self._next_line_at = time.monotonic() + LINE_S

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, folder: FolderProgress) -> None:
        """Show how many files have been read, and why it does not go on."""
        if folder.state != "reading":
            return
        completed = folder.files - folder.waiting
        problem = f" ({folder.problem.rstrip('.')})" if folder.problem else ""
        self._bar.update(
            self._task,
            description=f"reading{escape(problem)}",
            total=folder.files,
            completed=completed,
        )
        if not self._console.is_terminal and time.monotonic() > self._next_line_at:
            self._next_line_at += LINE_S
            line = f"{completed:,} of {format_count(folder.files, 'file')} read{problem}"
            self._console.print(line, markup=False)
