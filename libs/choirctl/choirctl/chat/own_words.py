"""Mark that tells Choir's own words from those of an agent, also without colours. Pure."""

from choir_common.escape_text import escape_hidden
from choir_common.wire.messages import OutboundMessage

OWN_SENDER = "choir"
OWN_MARK = "▌"
"""Before each line of Choir's own messages; removed from those of agents."""


def message_text(message: OutboundMessage) -> str:
    """Return a message's text for a terminal; each line of Choir's own words begins with `OWN_MARK`."""
    text = escape_hidden(message.text)
    if message.agent_id != OWN_SENDER:
        return text.replace(OWN_MARK, "|")
    return "\n".join(f"{OWN_MARK} {line}" for line in text.split("\n"))
