"""Texts about approval requests for the conversation. Pure functions.

The statement that changes a request also stores the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.approvals import (
    DiffLine,
    has_spelled_characters,
    request_lines,
    request_subject,
    request_summary,
)
from choir_common.i18n import Message, _, join, ngettext
from choir_common.mcp_forms import read_form
from choir_common.wire.grants import GrantScope
from choir_common.wire.model import JsonObject

DECIDED_BY_TIMEOUT = "timeout"
"""The decider of an expired request."""
DECIDED_BY_END = "end of its call"
"""The decider of a request whose call was cancelled, or ended otherwise."""

AFTER_APPROVAL = {
    "call": _("The agent continues."),
    "mcp_tools": _("The agent can use these tools until one of them changes."),
    "mcp_question": _("The server gets the answer."),
}
OPERATOR_DECIDES = _("{agent} needs an approval by an operator ({id}).")
ADMIN_DECIDES = _("{agent} needs an admin's approval for this. It was asked ({id}).")
EXECUTING = _("Executing.")
STATES = {
    "pending": _("pending"),
    "approved": _("approved"),
    "rejected": _("rejected"),
    "expired": _("expired"),
    "applying": _("applying"),
    "applied": _("applied"),
    "failed": _("failed"),
    "rolled_back": _("rolled back"),
}
"""The states of a request that have words of their own; others are shown as they are."""
SHORT_MAX_LINES = 24
SHORT_MAX_CHARACTERS = 1_200
LONG_MAX_LINES = 120
LONG_MAX_CHARACTERS = 6_000
MAX_LINE_WIDTH = 400
PAGE_CHARACTERS = 3_000
"""A page fits into one message of every channel."""

TOO_LATE = _("The session that requested this has ended, so nothing runs; ask the agent again.")

HOW_TO_DECIDE = _(
    "/approve {id} or /reject {id}. /approvals {id} shows more, "
    "`choirctl approval show {id}` all of it."
)
HOW_TO_ANSWER = _(
    "This is the server's text, neither Choir's nor the agent's; give it no password. "
    "/approve {id} {values}answers, /reject {id} declines, /reject {id} dismiss closes it. "
    "/approvals {id} shows more."
)
HOW_TO_OPEN = _(
    "This is the server's text, neither Choir's nor the agent's. /approve {id} says that you open the "
    "address yourself, /reject {id} declines, /reject {id} dismiss closes the question."
)
CUT = _("Not all is shown here. It can be approved once all pages were opened.")
SPELLED = _(
    "Some characters are invisible or look like others; they are spelled out, like <U+200B>. It can be "
    "approved once all pages were opened."
)


@dataclass(frozen=True, slots=True)
class RequestNotice:
    """The text that asks, and the pages that must be shown before an approval."""

    text: Message
    pages: int = 0
    """0: the text shows all of the request as it is."""


def format_request(
    agent_id: str, approval_id: str, request_type: str, payload: JsonObject, basis: JsonObject
) -> RequestNotice:
    """Return the notice that asks: who, for what, the beginning of the change, and how to decide."""
    lines = request_lines(request_type, payload, basis)
    body = truncate_lines(lines, SHORT_MAX_LINES, SHORT_MAX_CHARACTERS)
    first = join("", (requests_text(agent_id, request_type, payload), "."))
    is_whole = body == "\n".join(line.text for line in lines)
    is_spelled = has_spelled_characters(f"{first}\n{body}")
    how = _how_to_decide(approval_id, request_type, payload)
    if is_whole and not is_spelled:
        return RequestNotice(join("\n", (first, body, how)))
    warning = SPELLED if is_spelled else CUT
    text = join("\n", (first, body, warning, how))
    return RequestNotice(text, pages=len(split_pages(lines)))


def requests_text(agent_id: str, request_type: str, payload: JsonObject) -> Message:
    """Return who requests what, without a full stop."""
    return _("{agent} requests {what}").format(
        agent=agent_id, what=summary_text(request_type, payload)
    )


def summary_text(request_type: str, payload: JsonObject) -> Message:
    """Return what `request_summary` returns, as a message: the same subject, cut and spelled out alike."""
    subject = request_subject(request_type, payload)
    match request_type:
        case "call":
            text = _("the use of {subject}")
        case "mcp_tools":
            text = _("the tools of the MCP server {subject}")
        case "mcp_question":
            text = _("an answer to a question of the MCP server {subject}")
        case "skill":
            text = _("the skill {subject}")
        case "tool":
            text = _("the tool {subject}")
        case "config_change" if subject:
            text = _("the setting {subject}")
        case "repo_change":
            text = _("the merge of {subject}")
        case _unnamed:
            return join("", (request_summary(request_type, payload),))
    return text.format(subject=subject)


def format_page(
    agent_id: str,
    approval_id: str,
    request_type: str,
    payload: JsonObject,
    basis: JsonObject,
    page: int,
) -> Message:
    """Return one page of a request, counted from 1; nothing is left out of the pages."""
    pages = split_pages(request_lines(request_type, payload, basis))
    first = _("{request}. Page {page} of {pages}.").format(
        request=requests_text(agent_id, request_type, payload), page=page, pages=len(pages)
    )
    how = _how_to_decide(approval_id, request_type, payload) if page == len(pages) else CUT
    return join("\n", (first, pages[page - 1], how))


def _how_to_decide(approval_id: str, request_type: str, payload: JsonObject) -> Message:
    """Return the commands that decide; those for a form have the names of its fields."""
    form = payload.get("form")
    if request_type != "mcp_question":
        return HOW_TO_DECIDE.format(id=approval_id)
    if not isinstance(form, dict):
        return HOW_TO_OPEN.format(id=approval_id)
    values = " ".join(f"{field.name}=…" for field in read_form(form))
    return HOW_TO_ANSWER.format(id=approval_id, values=f"{values} " if values else "")


def split_pages(lines: Sequence[DiffLine]) -> list[str]:
    """Return the lines as pages of at most `PAGE_CHARACTERS`; a line that is too long is continued."""
    rest = "\n".join(line.text for line in lines)
    pages: list[str] = []
    while len(rest) > PAGE_CHARACTERS:
        end = rest.rfind("\n", PAGE_CHARACTERS // 2, PAGE_CHARACTERS + 1)
        pages.append(rest[:end] if end >= 0 else rest[:PAGE_CHARACTERS])
        rest = rest[end + 1 :] if end >= 0 else rest[PAGE_CHARACTERS:]
    return [*pages, rest]


def format_details(approval_id: str, state: str, head: str, lines: list[DiffLine]) -> Message:
    """Return a longer view of a request; omitted lines are counted, with a hint where to see them."""
    body = truncate_lines(lines, LONG_MAX_LINES, LONG_MAX_CHARACTERS)
    how = HOW_TO_DECIDE.format(id=approval_id) if state == "pending" else ""
    first = join("", (head, " [", STATES.get(state, state.replace("_", " ")), "]"))
    return join("\n", [part for part in (first, body, how) if part])


def truncate_lines(lines: list[DiffLine], most_lines: int, most_characters: int) -> Message:
    """Return the first lines as text, and the number of the lines that were cut."""
    shown_lines: list[str] = []
    characters_left = most_characters
    for line in lines[:most_lines]:
        text = (
            line.text
            if len(line.text) <= MAX_LINE_WIDTH
            else join(" ", (f"{line.text[:MAX_LINE_WIDTH]}…", _("(a long line)")))
        )
        characters_left -= len(text) + 1
        if characters_left < 0:
            break
        shown_lines.append(text)
    omitted_count = len(lines) - len(shown_lines)
    if omitted_count:
        more = ngettext("… {count} more line", "… {count} more lines", omitted_count)
        shown_lines.append(more)
    return join("\n", shown_lines)


def format_decision(
    gist: str,
    approval_id: str,
    outcome: str,
    by: str,
    request_type: str,
    *,
    too_late: bool = False,
    grant: str = "",
) -> Message:
    """Return the text about a decision: what, by whom, and what happens next.

    `grant` says which later calls it covers.
    """
    if outcome == "approved":
        then = TOO_LATE if too_late else AFTER_APPROVAL.get(request_type, EXECUTING)
        first = _("Approved by {by}: {what} ({id}).").format(by=by, what=gist, id=approval_id)
        return join(" ", [part for part in (first, then, grant) if part])
    if outcome != "expired":
        text = _("Rejected by {by}: {what} ({id}).")
    elif by == DECIDED_BY_END:
        text = _("Withdrawn: {what} ({id}). Its call has ended; nothing was done.")
    elif by != DECIDED_BY_TIMEOUT:
        text = _("Dismissed by {by}: {what} ({id}).")
    else:
        text = _("Expired: {what} ({id}). Nobody decided in time; nothing was done.")
    return text.format(by=by, what=gist, id=approval_id)


def format_result(gist: str, approval_id: str, how: str, detail: str) -> Message:
    """Return the text about the result of carrying out a request."""
    first = join("", (how, ": ", gist, f" ({approval_id})."))
    return join(" ", (first, detail)) if detail else first


def format_grant(
    grant_id: str,
    scope: GrantScope,
    days: int,
    destinations: Sequence[str],
    *,
    hosts: Sequence[str] = (),
) -> Message:
    """Return the text about a yes that covers later calls, and connections to `hosts`."""
    until = {"job": _("until this job ends"), "session": _("until this session ends")}.get(
        scope, ngettext("for {count} day", "for {count} days", days)
    )
    what = _("Equal calls")
    if destinations:
        what = _("Calls to {destinations}").format(destinations=", ".join(destinations))
    if hosts:
        what = _("{calls} and connections to {hosts}").format(calls=what, hosts=", ".join(hosts))
    return _("{calls} need no further yes {until}; `/revoke {id}` ends that.").format(
        calls=what, until=until, id=grant_id
    )
