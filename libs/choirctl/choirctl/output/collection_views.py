"""Tables of collections and their documents, and the progress of a folder that is being read."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from choir_common.errors import NotFound, Unavailable
from choir_common.i18n import _, join, ngettext
from choir_common.wire.memory_collections import (
    CollectionDocument,
    CollectionView,
    FolderProgress,
)
from choirctl.api.control import ControlClient
from choirctl.output.language import server_text, tr
from choirctl.output.printing import escape, format_age, stderr_console, table
from choirctl.output.state_words import state_text

POLL_S = 1.0
LINE_S = 10.0
"""Seconds between lines of progress where there is no terminal."""


def collection_rows(views: Sequence[CollectionView]) -> Table:
    """Return a table with one row per collection."""
    rows = table(_("COLLECTION"), _("DOCUMENTS"), _("PIECES"), _("FOLDER"), _("STATE"))
    for view in views:
        folder = escape(view.folder.path) if view.folder else "-"
        counts = (str(view.documents), str(view.chunks))
        rows.add_row(escape(view.name), *counts, folder, escape(describe_state(view)))
    return rows


def document_rows(documents: Sequence[CollectionDocument]) -> Table:
    """Return a table with one row per document or unreadable file."""
    rows = table(_("DOCUMENT"), _("CHARACTERS"), _("PIECES"), _("ADDED"), _("PROBLEM"))
    for document in documents:
        age = format_age(document.added_at) if document.added_at else _("not read yet")
        counts = (f"{document.characters:,}", str(document.chunks))
        rows.add_row(
            escape(document.name), *counts, age, escape(server_text(document.problem or "-"))
        )
    return rows


def describe_collection(view: CollectionView) -> str:
    """Return a sentence about a collection that follows a folder."""
    return _("{name}: {count}, {state}.").format(
        name=view.name,
        count=ngettext("{count} document", "{count} documents", view.documents),
        state=describe_state(view),
    )


def describe_state(view: CollectionView) -> str:
    """Return the state of a collection's folder as text."""
    folder = view.folder
    if folder is None:
        return _("added one by one")
    parts: list[str] = [
        _("{state} (scanned {age} ago)").format(
            state=state_text(folder.state), age=format_age(folder.scanned_at)
        )
    ]
    if folder.scanned_at is None:
        parts = [state_text(folder.state)]
    if folder.waiting:
        parts.append(
            _("{waiting:,} of {count} to be read").format(
                waiting=folder.waiting,
                count=ngettext("{count} file", "{count} files", folder.files),
            )
        )
    if folder.unreadable:
        parts.append(
            _("{count} not readable").format(
                count=ngettext("{count} file", "{count} files", folder.unreadable)
            )
        )
    if folder.problem:
        parts.append(server_text(folder.problem).rstrip("."))
    return join(", ", parts)


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
                raise NotFound(_("The collection {name} was removed.").format(name=before.name))
            folder = views[0].folder
            if folder.state == "unreachable":
                raise Unavailable(
                    _("{path} cannot be scanned. {problem}").format(
                        path=folder.path, problem=server_text(folder.problem)
                    )
                )
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
        self._task = self._bar.add_task(tr(_("looking for files")), total=None)
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
        problem = f" ({server_text(folder.problem).rstrip('.')})" if folder.problem else ""
        self._bar.update(
            self._task,
            description=tr(_("reading{problem}").format(problem=escape(problem))),
            total=folder.files,
            completed=completed,
        )
        if not self._console.is_terminal and time.monotonic() > self._next_line_at:
            self._next_line_at += LINE_S
            line = _("{completed:,} of {count} read{problem}").format(
                completed=completed,
                count=ngettext("{count} file", "{count} files", folder.files),
                problem=problem,
            )
            self._console.print(line, markup=False)
