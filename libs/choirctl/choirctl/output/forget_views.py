"""Tables and text about what is erased from an agent's memory."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from choir_common.wire.memory_forget import ConversationMessage, ForgetReport, ForgottenDocument
from choirctl.output.memory_views import truncate
from choirctl.output.printing import format_age, format_count, table

CONVERSATIONS = {
    "kept": "",
    "summary": "The conversation starts again with its reference summary ({chars:,} characters).",
    "no summary": "The conversation starts again with nothing: it has no reference summary yet.",
    "nothing": "The conversation starts again with nothing.",
    "rest": "The conversation continues without the erased period.",
}


def forgotten_rows(documents: Sequence[ForgottenDocument]) -> Table:
    """Return a table with one row per document, oldest first."""
    rows = table("DOCUMENT", "KIND", "KEY OR SESSION", "WHY", "AGE", "TEXT")
    for document in documents:
        rows.add_row(
            document.document_id,
            document.kind,
            escape(document.key or document.session_id or "-"),
            "derived" if document.derived else "selected",
            format_age(document.at),
            escape(truncate(document.text)),
        )
    return rows


def forget_lines(report: ForgetReport) -> list[str]:
    """Return the counts and consequences of an erasure, or of its preview."""
    memory = report.memory
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in memory.counts.items())
    verb = "Erased" if memory.erased else "To erase"
    lines = []
    if memory.total or not (report.message_count or report.logs):
        documents = format_count(memory.total, "document")
        lines.append(f"{verb} from memory: {documents}{f' ({kinds})' if kinds else ''}.")
    hidden = memory.total - len(memory.documents)
    if hidden and not memory.erased:
        lines.append(f"{hidden:,} of them are not listed.")
    if report.message_count:
        messages = format_count(report.message_count, "message")
        lines.append(f"{verb} from the conversation: {messages}.")
        if not memory.erased:
            lines += [_message_line(message) for message in report.messages]
    if memory.supported:
        lines.append(f"Kept, because other sources support them too: {memory.supported:,}.")
    if memory.restored:
        lines.append(f"Active again: {format_count(memory.restored, 'older document')}.")
    if report.logs:
        sessions = format_count(len(report.logs), "session")
        lines.append(f"{verb} except for hashes: logs, messages and received files of {sessions}.")
    if report.conversation != "kept":
        has_none = report.conversation == "summary" and not report.summary_chars
        outcome = CONVERSATIONS["no summary" if has_none else report.conversation]
        lines.append(outcome.format(chars=report.summary_chars))
    if report.restarts:
        verb = "has started" if memory.erased else "discards open work and starts"
        lines.append(f"Agent {report.agent_id} {verb} again.")
    if report.earlier_until is not None and not memory.erased:
        lines.append(
            f"Earlier sessions, until {report.earlier_until.astimezone():%Y-%m-%d %H:%M}, stay in memory; "
            "`memory forget --last 7d` also erases those of that time."
        )
    if report.unsearched and not memory.erased:
        lines.append("The running conversation is not searched for the words.")
    return lines


def _message_line(message: ConversationMessage) -> str:
    return f"  {message.at.astimezone():%Y-%m-%d %H:%M} {message.sender}: {truncate(message.text)}"
