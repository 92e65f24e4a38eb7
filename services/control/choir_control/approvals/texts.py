"""Texts about approval requests for the conversation. Pure functions.

The statement that changes a request also stores the text.
"""

from choir_common.approvals import DiffLine, request_lines, request_summary
from choir_common.wire.model import JsonObject

DECIDED_BY_TIMEOUT = "timeout"
"""The decider of an expired request."""

SHORT_MAX_LINES = 24
SHORT_MAX_CHARACTERS = 1_200
LONG_MAX_LINES = 120
LONG_MAX_CHARACTERS = 6_000
MAX_LINE_WIDTH = 400

TOO_LATE = "The session that requested this has ended, so nothing runs; ask the agent again."

HOW_TO_DECIDE = (
    "/approve {id} or /reject {id}. /approvals {id} shows more, "
    "`choirctl approval show {id}` all of it."
)


def format_request(
    agent_id: str, approval_id: str, request_type: str, payload: JsonObject, basis: JsonObject
) -> str:
    """Return the text that asks: who, for what, the beginning of the change, and how to decide."""
    lines = request_lines(request_type, payload, basis)
    body = truncate_lines(lines, SHORT_MAX_LINES, SHORT_MAX_CHARACTERS)
    first = f"{agent_id} requests {request_summary(request_type, payload)}."
    return f"{first}\n{body}\n{HOW_TO_DECIDE.format(id=approval_id)}"


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
    gist: str, approval_id: str, outcome: str, by: str, request_type: str, *, too_late: bool = False
) -> str:
    """Return the text about a decision: what, by whom, and what happens next."""
    if outcome == "approved":
        then = "The agent continues." if request_type == "call" else "Executing."
        then = TOO_LATE if too_late else then
        return f"Approved by {by}: {gist} ({approval_id}). {then}"
    if outcome == "expired":
        return f"Expired: {gist} ({approval_id}). Nobody decided in time; nothing was done."
    return f"Rejected by {by}: {gist} ({approval_id})."


def format_result(gist: str, approval_id: str, how: str, detail: str) -> str:
    """Return the text about the result of carrying out a request."""
    return f"{how}: {gist} ({approval_id}). {detail}".rstrip()
