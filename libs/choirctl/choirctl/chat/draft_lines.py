"""The newest lines of a reply that is being written, for a terminal. Pure.

Used by `status_line` and the command `chat`; a module without prompt_toolkit, which is slow to import.
"""

from rich.console import Console
from rich.text import Text

from choir_common.escape_text import escape_hidden

MAX_LINES = 12
"""The whole reply is printed when it is stored."""


def wrap_draft(text: str, width: int) -> list[str]:
    """Return the newest lines of a text, each at most `width` columns wide."""
    if not text.strip():
        return []
    # More text than fits on the lines need not be wrapped.
    newest = escape_hidden(text[-MAX_LINES * width :])
    wrapped = Text(newest).wrap(Console(width=width), width)
    return [line.plain.rstrip() for line in wrapped][-MAX_LINES:]
