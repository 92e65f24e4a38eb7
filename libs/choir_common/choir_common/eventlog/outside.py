"""Which tools bring in what strangers wrote. Pure; used by the agent's fold and by memory.

Both have to agree: what an agent notes down after it read a page is trusted as far as the page.
"""

OUTSIDE = ("choir.web.", "choir.email.")
"""How their names begin."""


def is_outside(tool: str) -> bool:
    """Tell whether this tool brings in what strangers wrote."""
    return tool.startswith(OUTSIDE)
