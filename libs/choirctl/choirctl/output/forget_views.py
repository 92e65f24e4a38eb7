"""Tables and text about what is erased from an agent's memory."""

from collections.abc import Sequence

from rich.table import Table

from choir_common.i18n import _, ngettext
from choir_common.wire.memory_forget import ConversationMessage, ForgetReport, ForgottenDocument
from choirctl.output.memory_views import truncate
from choirctl.output.printing import escape, format_age, table
from choirctl.output.state_words import state_text

CONVERSATIONS: dict[str, str] = {
    "kept": "",
    "summary": _(
        "The conversation starts again with its reference summary ({chars:,} characters)."
    ),
    "no summary": _("The conversation starts again with nothing: it has no reference summary yet."),
    "nothing": _("The conversation starts again with nothing."),
    "rest": _("The conversation continues without the erased period."),
}


def forgotten_rows(documents: Sequence[ForgottenDocument]) -> Table:
    """Return a table with one row per document, oldest first."""
    rows = table(_("DOCUMENT"), _("KIND"), _("KEY OR SESSION"), _("WHY"), _("AGE"), _("TEXT"))
    for document in documents:
        rows.add_row(
            document.document_id,
            state_text(document.kind),
            escape(document.key or document.session_id or "-"),
            _("derived") if document.derived else _("selected"),
            format_age(document.at),
            escape(truncate(document.text)),
        )
    return rows


def forget_lines(report: ForgetReport) -> list[str]:
    """Return the counts and consequences of an erasure, or of its preview."""
    memory = report.memory
    kinds = ", ".join(f"{state_text(kind)} {count:,}" for kind, count in memory.counts.items())
    verb = _("Erased") if memory.erased else _("To erase")
    lines: list[str] = []
    if memory.total or not (report.message_count or report.logs):
        documents = ngettext("{count} document", "{count} documents", memory.total)
        lines.append(
            _("{verb} from memory: {documents}{value}.").format(
                verb=verb, documents=documents, value=f" ({kinds})" if kinds else ""
            )
        )
    hidden = memory.total - len(memory.documents)
    if hidden and not memory.erased:
        lines.append(_("{hidden:,} of them are not listed.").format(hidden=hidden))
    if report.message_count:
        messages = ngettext("{count} message", "{count} messages", report.message_count)
        lines.append(
            _("{verb} from the conversation: {messages}.").format(verb=verb, messages=messages)
        )
        if not memory.erased:
            lines += [_message_line(message) for message in report.messages]
    if memory.supported:
        lines.append(
            _("Kept, because other sources support them too: {supported:,}.").format(
                supported=memory.supported
            )
        )
    if memory.restored:
        lines.append(
            _("Active again: {count}.").format(
                count=ngettext("{count} older document", "{count} older documents", memory.restored)
            )
        )
    if report.logs:
        sessions = ngettext("{count} session", "{count} sessions", len(report.logs))
        lines.append(
            _("{verb} except for hashes: logs, messages and received files of {sessions}.").format(
                verb=verb, sessions=sessions
            )
        )
    return [*lines, *_consequences(report)]


def _consequences(report: ForgetReport) -> list[str]:
    """Return what follows for the conversation and its agent."""
    memory, lines = report.memory, list[str]()
    if report.conversation != "kept":
        has_none = report.conversation == "summary" and not report.summary_chars
        outcome = CONVERSATIONS["no summary" if has_none else report.conversation]
        lines.append(outcome.format(chars=report.summary_chars))
    if report.restarts:
        verb = _("has started") if memory.erased else _("discards open work and starts")
        lines.append(
            _("Agent {agent_id} {verb} again.").format(agent_id=report.agent_id, verb=verb)
        )
    if report.earlier_until is not None and not memory.erased:
        lines.append(
            _(
                "Earlier sessions, until {astimezone:%Y-%m-%d %H:%M}, stay in memory; `memory "
                "forget --last 7d` also erases those of that time."
            ).format(astimezone=report.earlier_until.astimezone())
        )
    if report.unsearched and not memory.erased:
        lines.append(_("The running conversation is not searched for the words."))
    return lines


def _message_line(message: ConversationMessage) -> str:
    return f"  {message.at.astimezone():%Y-%m-%d %H:%M} {message.sender}: {truncate(message.text)}"
