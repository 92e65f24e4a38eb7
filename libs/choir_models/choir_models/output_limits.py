"""Limits of a model's output, and the notes about what was cut off. Pure."""

from pydantic import JsonValue

MAX_TEXT = 200_000
# Longer arguments are cut, so that the arbiter refuses them as malformed.
MAX_ARGUMENTS = 200_000
MAX_CALLS = 100
"""Maximum tool calls in one output; a larger number indicates a loop."""
MAX_TOKENS = 10_000_000
"""Upper bound on reported usage; a larger number is a provider's mistake."""
CUT = "[cut off here: the model reached the limit of its output]"


def text_with_notes(text: str, *, calls: int, is_cut: bool) -> str:
    """Return an output's text within its limit, with notes about dropped calls and a missing end."""
    dropped = max(0, calls - MAX_CALLS)
    notes = (
        [f"[{dropped} more tool calls were dropped: at most {MAX_CALLS} at once]"]
        if dropped
        else []
    )
    if is_cut and not calls:
        notes.append(CUT)
    text = text[:MAX_TEXT]
    return "\n\n".join([text, *notes] if text else notes)


def token_count(tokens: JsonValue) -> int:
    """Return a reported number of tokens, or 0 if it is missing or not a number."""
    if isinstance(tokens, bool) or not isinstance(tokens, int | float):
        return 0
    return int(min(max(tokens, 0), MAX_TOKENS))
