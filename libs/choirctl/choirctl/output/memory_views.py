"""Tables and text for an agent's memory. Used by the `memory` commands."""

from collections.abc import Sequence

from rich.filesize import decimal
from rich.table import Table

from choir_common.i18n import _, join, ngettext
from choir_common.wire.memory_modes import ConversationMemory
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntry,
    DocumentDetail,
    DocumentView,
    FeedbackView,
)
from choir_common.wire.memory_search import MemoryHit
from choirctl.output.printing import escape, format_age, table
from choirctl.output.state_words import state_text

LONGEST = 100
SHOWN_IDS = 3
# fields of a record that `document_facts` shows elsewhere or not at all
HIDDEN_FIELDS = ("type", "id", "text", "metadata")
WORD_FIELDS = ("grain", "kind", "origin", "status", "status_before", "tier")
"""Fields of a record whose values are words of the wire."""


def document_rows(documents: Sequence[DocumentView]) -> Table:
    """Return a table with one row per document."""
    rows = table(
        _("DOCUMENT"), _("KIND"), _("KEY OR SESSION"), _("VERSION"), _("FROM"), _("AGE"), _("TEXT")
    )
    for document in documents:
        rows.add_row(
            document.document_id,
            f"{state_text(document.tier or document.kind)}{_render_status(document)}",
            escape(document.key or document.session_id or document.period or "-"),
            str(document.version),
            escape(f"{state_text(document.origin)} {document.trust}"),
            format_age(document.at),
            escape(truncate(document.text, document.length)),
        )
    return rows


def hit_rows(hits: Sequence[MemoryHit]) -> Table:
    """Return a table with one row per hit, best first, with the score from each arm."""
    rows = table(_("SCORE"), _("ARMS"), _("DOCUMENT"), _("KIND"), _("FROM"), _("AGE"), _("TEXT"))
    for hit in hits:
        arms = ", ".join(f"{arm.arm} {arm.score:.2f}" for arm in hit.arms)
        rows.add_row(
            f"{hit.score:.3f}",
            arms or "-",
            hit.document_id,
            f"{hit.period or state_text(hit.tier or hit.kind)}{_render_status(hit)}",
            escape(f"{state_text(hit.origin)} {hit.trust}"),
            format_age(hit.happened_at or hit.created_at),
            escape(truncate(hit.text)),
        )
    return rows


def _render_status(document: DocumentView | MemoryHit) -> str:
    """Return what limits a document: its status, when it starts or ends, and what superseded it."""
    parts = [] if document.status == "active" else [state_text(document.status)]
    if document.status == "upcoming" and document.valid_from:
        parts.append(_("from {valid_from:%Y-%m-%d %H:%M}").format(valid_from=document.valid_from))
    if document.status != "retired" and document.valid_to:
        parts.append(_("until {valid_to:%Y-%m-%d %H:%M}").format(valid_to=document.valid_to))
    if document.superseded_by:
        parts.append(_("superseded by {names}").format(names=", ".join(document.superseded_by)))
    return f" ({join(', ', parts)})" if parts else ""


def document_facts(document: DocumentDetail) -> Table:
    """Return a table with all fields of a document except its text."""
    facts = table("", "")
    facts.show_header = False
    record = document.record
    facts.add_row(_("document"), getattr(record, "id", "-"))
    for name, value in record.model_dump(exclude=set(HIDDEN_FIELDS), exclude_none=True).items():
        cell = state_text(value) if name in WORD_FIELDS else str(value)
        facts.add_row(state_text(name), escape(cell))
    for name, value in getattr(record, "metadata", {}).items():
        facts.add_row(escape(_("metadata {name}").format(name=name)), escape(str(value)))
    facts.add_row(_("vectors"), str(document.vectors))
    for link in document.links:
        arrow = "→" if link.direction == "from" else "←"
        text = _("(gone)") if link.text is None else truncate(link.text)
        facts.add_row(f"{arrow} {state_text(link.kind)}", escape(f"{link.document_id} {text}"))
    return facts


def audit_rows(entries: Sequence[AuditEntry]) -> Table:
    """Return a table with one row per audit log entry."""
    rows = table(_("NO"), _("WHEN"), _("WHO"), _("WHAT"), _("DOCUMENTS"))
    for entry in entries:
        ids = entry.document_ids[:SHOWN_IDS]
        more = len(entry.document_ids) - len(ids)
        rest = _(" and {more:,} more").format(more=more) if more else ""
        details = ", ".join(f"{state_text(name)} {value}" for name, value in entry.detail.items())
        operation = state_text(entry.operation)
        rows.add_row(
            str(entry.number),
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            state_text(entry.actor),
            escape(f"{operation} ({details})" if details else operation),
            f"{', '.join(ids)}{rest}" or "-",
        )
    return rows


def feedback_rows(items: Sequence[FeedbackView]) -> Table:
    """Return a table with one row per judgement of a user."""
    rows = table(_("WHEN"), _("SESSION"), _("FEEDBACK"), _("TEXT"))
    for item in items:
        rows.add_row(
            f"{item.at:%Y-%m-%d %H:%M}",
            escape(item.session_id),
            item.label,
            escape(truncate(item.text)),
        )
    return rows


def memory_facts(state: AgentMemory) -> Table:
    """Return a table with the number of documents, one row per store and kind."""
    rows = table(_("STORE"), _("KIND"), _("DOCUMENTS"), _("WITHOUT VECTOR"))
    for count in state.counts:
        kind = join(" ", map(state_text, filter(None, (count.tier, count.kind))))
        rows.add_row(
            state_text(count.store), kind, f"{count.documents:,}", f"{count.without_vector:,}"
        )
    return rows


def memory_notes(state: AgentMemory) -> str:
    """Return text about the size, the queue and unfinished imports."""
    words = _("{decimal} on disk, {count} in the queue.").format(
        decimal=decimal(state.bytes),
        count=ngettext("{count} document", "{count} documents", state.queued),
    )
    for unfinished_import in state.unfinished_imports:
        words += _(
            "\nAn import stopped at {done:,} of {total:,} records. Import the same file again "
            "to resume it; existing records are not changed."
        ).format(done=unfinished_import.done, total=unfinished_import.total)
    return words


def truncate(text: str, length: int | None = None) -> str:
    """Return the beginning of a text on one line; `length` is that of the whole text, if it is longer."""
    line = " ".join(text.split())
    cut = len(line) > LONGEST or (length or 0) > len(text)
    return f"{line[:LONGEST]}…" if cut else line


def conversation_facts(memory: ConversationMemory) -> Table:
    """Return a table of how a conversation uses memory."""
    facts = table("", "")
    facts.show_header = False
    facts.add_row(_("conversation"), escape(memory.dm))
    facts.add_row(_("agent"), memory.agent_id or "-")
    facts.add_row(_("session"), memory.session_id or "-")
    facts.add_row(_("memory mode"), memory.mode)
    source = "" if memory.recall_setting == "default" else _(", set for this conversation")
    facts.add_row(_("recall"), f"{_('on') if memory.recall else _('off')}{source}")
    return facts
