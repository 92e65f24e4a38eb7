"""Commands `choirctl memory status|show|delete|audit|feedback|receipt`.

`list` and `search` are in `memory_search`, `put` in `memory_write`, `export` and `import` in
`memory_export`, `forget` and `undo` in `memory_forget`, `mode` and `recall` in `memory_mode`.
"""

import sys
from typing import Annotated

import typer

from choir_client import AsyncMemory
from choir_common.errors import InvalidRequest
from choir_common.i18n import _, ngettext
from choir_common.target import Target
from choir_common.wire.memory_operator import AuditEntry, MemoryErased
from choir_common.wire.memory_sessions import SessionErased
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, complete_with
from choirctl.commands.memory_export import export, import_
from choirctl.commands.memory_forget import forget, undo
from choirctl.commands.memory_mode import mode, recall
from choirctl.commands.memory_options import (
    NOTHING,
    Expected,
    OfSession,
    list_sessions,
    send,
)
from choirctl.commands.memory_search import list_documents, search
from choirctl.commands.memory_write import put
from choirctl.output.memory_views import (
    audit_rows,
    document_facts,
    feedback_rows,
    memory_facts,
    memory_notes,
)
from choirctl.output.printing import (
    confirm,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
)

PAGE = 200


Name = Annotated[str, typer.Argument(metavar="DOCUMENT", help="The document's id, or its key.")]


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
    state = send(find_target(ctx, home, url), agent, lambda memory: memory.status())
    if as_json:
        print_json(state)
    else:
        print_rows(memory_facts(state), NOTHING)
        stderr_console().print(memory_notes(state), markup=False)


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
    detail = send(find_target(ctx, home, url), agent, lambda memory: memory.document(document))
    if as_json:
        print_json(detail)
        return
    stdout_console().print(document_facts(detail))
    stdout_console().print(f"\n{getattr(detail.record, 'text', '')}", markup=False, highlight=False)


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
            autocompletion=complete_with(list_sessions),
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
        raise InvalidRequest(_("Name a document or a --session to erase."))
    place = find_target(ctx, home, url)
    if not yes:
        _confirm(place, agent, document, session)
    counts: SessionErased | MemoryErased
    if session is not None:
        erasure = send(place, agent, lambda memory: memory.erase_session(session))
        counts, derived = erasure, 0
    else:
        deletion = send(place, agent, lambda memory: memory.delete(document or "", expected))
        counts, derived = deletion, deletion.derived
    if as_json:
        print_json(counts.model_dump())
    else:
        _print_erased(counts.documents, derived)


def _print_erased(documents: int, derived: int) -> None:
    count = ngettext("{count} document", "{count} documents", documents)
    text = _("Erased: {count}.").format(count=count)
    if derived:
        others = ngettext("{count} document", "{count} documents", derived)
        text = _("Erased: {count} and {others} derived from it.").format(count=count, others=others)
    stderr_console().print(text, markup=False)


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
    entries = send(find_target(ctx, home, url), agent, lambda memory: _audit(memory, before, limit))
    if as_json:
        print_json(entries)
    else:
        print_rows(audit_rows(entries), _("The audit log of that memory is empty."))


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
    page = send(find_target(ctx, home, url), agent, lambda memory: memory.feedback(session, limit))
    if as_json:
        print_json(page.items)
    else:
        print_rows(feedback_rows(page.items), _("No feedback was given."))


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
    view = send(find_target(ctx, home, url), agent, lambda memory: memory.receipt(name))
    if not as_json:
        stderr_console().print(
            _("{at:%Y-%m-%d %H:%M:%S}, asked by {asked_by}").format(
                at=view.at, asked_by=view.asked_by
            ),
            markup=False,
        )
    print_json(view if as_json else dict(view.receipt))


async def _audit(memory: AsyncMemory, before: int | None, limit: int) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    while len(entries) < limit:
        size = min(PAGE, limit - len(entries))
        page = await memory.audit(before, size)
        entries += page.items
        if len(page.items) < size:
            break
        before = page.items[-1].number
    return entries


def _confirm(place: Target, agent: str, document: str | None, session: str | None) -> None:
    what = (
        _("everything in {agent}'s memory about session {session}").format(
            agent=agent, session=session
        )
        if session
        else f"{document}"
    )
    if not sys.stdin.isatty():
        raise InvalidRequest(
            _("Nobody can be asked whether to erase {what}. Say --yes.").format(what=what)
        )
    if document is not None:
        detail = send(place, agent, lambda memory: memory.document(document))
        stdout_console().print(document_facts(detail))
    if not confirm(_("Erase {what} permanently?").format(what=what)):
        raise InvalidRequest(_("Nothing was erased."))
