"""Texts about approval requests for the conversation. Pure functions.

The statement that changes a request also stores the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.approvals import DiffLine, has_spelled_characters, request_lines, request_summary
from choir_common.mcp_forms import read_form
from choir_common.wire.grants import GrantScope
from choir_common.wire.model import JsonObject

DECIDED_BY_TIMEOUT = "timeout"
"""The decider of an expired request."""
DECIDED_BY_END = "end of its call"
"""The decider of a request whose call was cancelled, or ended otherwise."""

AFTER_APPROVAL = {
    "call": "The agent continues.",
    "mcp_tools": "The agent can use these tools until one of them changes.",
    "mcp_question": "The server gets the answer.",
}
SHORT_MAX_LINES = 24
SHORT_MAX_CHARACTERS = 1_200
LONG_MAX_LINES = 120
LONG_MAX_CHARACTERS = 6_000
MAX_LINE_WIDTH = 400
PAGE_CHARACTERS = 3_000
"""A page fits into one message of every channel."""

TOO_LATE = "The session that requested this has ended, so nothing runs; ask the agent again."

HOW_TO_DECIDE = (
    "/approve {id} or /reject {id}. /approvals {id} shows more, "
    "`choirctl approval show {id}` all of it."
)
HOW_TO_ANSWER = (
    "This is the server's text, neither Choir's nor the agent's; give it no password. "
    "/approve {id} {values} answers, /reject {id} declines, /reject {id} dismiss closes it. "
    "/approvals {id} shows more."
)
HOW_TO_OPEN = (
    "This is the server's text, neither Choir's nor the agent's. /approve {id} says that you open the "
    "address yourself, /reject {id} declines, /reject {id} dismiss closes the question."
)
CUT = "Not all is shown here. It can be approved once all pages were opened."
SPELLED = (
    "Some characters are invisible or look like others; they are spelled out, like <U+200B>. It can be "
    "approved once all pages were opened."
)


@dataclass(frozen=True, slots=True)
class RequestNotice:
    """The text that asks, and the pages that must be shown before an approval."""

    text: str
    pages: int = 0
    """0: the text shows all of the request as it is."""


def format_request(
    agent_id: str, approval_id: str, request_type: str, payload: JsonObject, basis: JsonObject
) -> RequestNotice:
    """Return the notice that asks: who, for what, the beginning of the change, and how to decide."""
    lines = request_lines(request_type, payload, basis)
    body = truncate_lines(lines, SHORT_MAX_LINES, SHORT_MAX_CHARACTERS)
    first = f"{agent_id} requests {request_summary(request_type, payload)}."
    is_whole = body == "\n".join(line.text for line in lines)
    is_spelled = has_spelled_characters(f"{first}\n{body}")
    how = _how_to_decide(approval_id, request_type, payload)
    if is_whole and not is_spelled:
        return RequestNotice(f"{first}\n{body}\n{how}")
    warning = SPELLED if is_spelled else CUT
    return RequestNotice(f"{first}\n{body}\n{warning}\n{how}", pages=len(split_pages(lines)))


def format_page(
    agent_id: str,
    approval_id: str,
    request_type: str,
    payload: JsonObject,
    basis: JsonObject,
    page: int,
) -> str:
    """Return one page of a request, counted from 1; nothing is left out of the pages."""
    pages = split_pages(request_lines(request_type, payload, basis))
    first = f"{agent_id} requests {request_summary(request_type, payload)}. Page {page} of {len(pages)}."
    how = _how_to_decide(approval_id, request_type, payload) if page == len(pages) else CUT
    return f"{first}\n{pages[page - 1]}\n{how}"


def _how_to_decide(approval_id: str, request_type: str, payload: JsonObject) -> str:
    """Return the commands that decide; those for a form have the names of its fields."""
    form = payload.get("form")
    if request_type != "mcp_question":
        return HOW_TO_DECIDE.format(id=approval_id)
    if not isinstance(form, dict):
        return HOW_TO_OPEN.format(id=approval_id)
    values = " ".join(f"{field.name}=…" for field in read_form(form))
    return HOW_TO_ANSWER.format(id=approval_id, values=values).replace("  ", " ")


def split_pages(lines: Sequence[DiffLine]) -> list[str]:
    """Return the lines as pages of at most `PAGE_CHARACTERS`; a line that is too long is continued."""
    rest = "\n".join(line.text for line in lines)
    pages: list[str] = []
    while len(rest) > PAGE_CHARACTERS:
        end = rest.rfind("\n", PAGE_CHARACTERS // 2, PAGE_CHARACTERS + 1)
        pages.append(rest[:end] if end >= 0 else rest[:PAGE_CHARACTERS])
        rest = rest[end + 1 :] if end >= 0 else rest[PAGE_CHARACTERS:]
    return [*pages, rest]


def format_details(approval_id: str, state: str, head: str, lines: list[DiffLine]) -> str:
    """Return a longer view of a request; omitted lines are counted, with a hint where to see them."""
    body = truncate_lines(lines, LONG_MAX_LINES, LONG_MAX_CHARACTERS)
    how = HOW_TO_DECIDE.format(id=approval_id) if state == "pending" else ""
    return "\n".join(part for part in (f"{head} [{state.replace('_', ' ')}]", body, how) if part)


def truncate_lines(lines: list[DiffLine], most_lines: int, most_characters: int) -> str:
    """Return the first lines as text, and the number of the lines that were cut."""
    shown_lines: list[str] = []
    characters_left = most_characters
    for line in lines[:most_lines]:
        text = (
            line.text
            if len(line.text) <= MAX_LINE_WIDTH
            else f"{line.text[:MAX_LINE_WIDTH]}… (a long line)"
        )
        characters_left -= len(text) + 1
        if characters_left < 0:
            break
        shown_lines.append(text)
    omitted_count = len(lines) - len(shown_lines)
    return "\n".join(
        [*shown_lines, f"… {omitted_count} more lines"] if omitted_count else shown_lines
    )


def format_decision(
    gist: str,
    approval_id: str,
    outcome: str,
    by: str,
    request_type: str,
    *,
    too_late: bool = False,
    grant: str = "",
) -> str:
    """Return the text about a decision: what, by whom, and what happens next.

    `grant` says which later calls it covers.
    """
    if outcome == "approved":
        then = AFTER_APPROVAL.get(request_type, "Executing.")
        then = TOO_LATE if too_late else then
        then = f"{then} {grant}".rstrip()
        return f"Approved by {by}: {gist} ({approval_id}). {then}"
    if outcome == "expired":
        if by == DECIDED_BY_END:
            return f"Withdrawn: {gist} ({approval_id}). Its call has ended; nothing was done."
        if by != DECIDED_BY_TIMEOUT:
            return f"Dismissed by {by}: {gist} ({approval_id})."
        return f"Expired: {gist} ({approval_id}). Nobody decided in time; nothing was done."
    return f"Rejected by {by}: {gist} ({approval_id})."


def format_result(gist: str, approval_id: str, how: str, detail: str) -> str:
    """Return the text about the result of carrying out a request."""
    return f"{how}: {gist} ({approval_id}). {detail}".rstrip()


def format_grant(
    grant_id: str,
    scope: GrantScope,
    days: int,
    destinations: Sequence[str],
    *,
    hosts: Sequence[str] = (),
) -> str:
    """Return the text about a yes that covers later calls, and connections to `hosts`."""
    until = {"job": "until this job ends", "session": "until this session ends"}
    what = f"Calls to {', '.join(destinations)}" if destinations else "Equal calls"
    if hosts:
        what = f"{what} and connections to {', '.join(hosts)}"
    return (
        f"{what} need no further yes {until.get(scope, f'for {days} days')}; "
        f"`/revoke {grant_id}` ends that."
    )
