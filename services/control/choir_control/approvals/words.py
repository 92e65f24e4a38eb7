"""Texts about approval requests for the conversation. Pure functions.

Called by `store`, `decide` and `evolution`. The statement that changes a request also stores the
text.
"""

from choir_common.approvals.shown import Line, gist_of, lines_of
from choir_common.wire.json import JsonObject

TIMEOUT = "timeout"
"""The decider of an expired request."""

MOST_LINES = 24
MOST_CHARACTERS = 1_200
LONG_LINES = 120
LONG_CHARACTERS = 6_000
WIDE = 400

TOO_LATE = "The session that asked has ended, so nothing runs; ask the agent for it again."

HOW = "/approve {id} or /reject {id}. /approvals {id} shows more, `choirctl approval show {id}` all of it."


def asked_text(
    agent_id: str, approval_id: str, request_type: str, payload: JsonObject, basis: JsonObject
) -> str:
    """Return the text that asks: who, for what, the beginning of the change, and how to decide."""
    lines = lines_of(request_type, payload, basis)
    body = beginning_of(lines, MOST_LINES, MOST_CHARACTERS)
    first = f"{agent_id} asks for {gist_of(request_type, payload)}."
    return f"{first}\n{body}\n{HOW.format(id=approval_id)}"


def shown_text(approval_id: str, state: str, head: str, lines: list[Line]) -> str:
    """Return a longer view of a request; omitted lines are counted, with a hint where to see them."""
    body = beginning_of(lines, LONG_LINES, LONG_CHARACTERS)
    how = HOW.format(id=approval_id) if state == "pending" else ""
    return "\n".join(part for part in (f"{head} [{state.replace('_', ' ')}]", body, how) if part)


def beginning_of(lines: list[Line], most_lines: int, most_characters: int) -> str:
    """Return the first lines as text, and the number of the lines that were cut."""
    kept: list[str] = []
    room = most_characters
    for line in lines[:most_lines]:
        text = line.text if len(line.text) <= WIDE else f"{line.text[:WIDE]}… (a long line)"
        room -= len(text) + 1
        if room < 0:
            break
        kept.append(text)
    left = len(lines) - len(kept)
    return "\n".join([*kept, f"… {left} more lines"] if left else kept)


def decided_text(
    gist: str, approval_id: str, outcome: str, by: str, request_type: str, *, too_late: bool = False
) -> str:
    """Return the text about a decision: what, by whom, and what happens next."""
    if outcome == "approved":
        then = "The agent goes on with it." if request_type == "call" else "Executing."
        then = TOO_LATE if too_late else then
        return f"Approved by {by}: {gist} ({approval_id}). {then}"
    if outcome == "expired":
        return f"Expired: {gist} ({approval_id}). Nobody decided in time; nothing was done."
    return f"Rejected by {by}: {gist} ({approval_id})."


def ended_text(gist: str, approval_id: str, how: str, detail: str) -> str:
    """Return the text about the result of carrying out a request."""
    return f"{how}: {gist} ({approval_id}). {detail}".rstrip()
