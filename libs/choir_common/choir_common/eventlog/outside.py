"""Which tools return text from outside, such as web pages and mail. Pure.

Used by the agent's fold and by memory, which must agree: a note that an agent writes after it read a page
is trusted no more than the page. See docs/design/security.md.
"""

OUTSIDE = ("choir.web.", "choir.email.")
"""Name prefixes of these tools."""


def is_outside(tool: str) -> bool:
    """Return whether this tool returns text that outsiders wrote."""
    return tool.startswith(OUTSIDE)
