"""Rendering of messages for a terminal: Markdown as styled text, control characters made visible.

Pure. Used by `terminal_chat`, `status_line` and `lane_activity`.
"""

import re
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import OutboundMessage
from choirctl.chat.own_words import OWN_MARK, OWN_SENDER, message_text
from choirctl.output.printing import escape

# colour, and what follows the agent's name; a report comes from a job, so it answers no message
STYLES: Mapping[ReplyKind, tuple[str, str]] = {
    "answer": ("cyan", ""),
    "error": ("red", ""),
    "notice": ("yellow", ""),
    "message": ("cyan", ""),
    "report": ("magenta", _(" reports:")),
    "silent": ("cyan", ""),
}
# a text that matches is rendered as Markdown
MARKDOWN = re.compile(r"\n|[*_`#|\[\]]|^\s*(?:[-+>]|\d+\.)\s")


def one_line(text: str, max_length: int) -> str:
    """Return a text on one line, truncated to `longest` characters."""
    flat = " ".join(escape_hidden(text).split())
    return flat if len(flat) <= max_length else f"{flat[: max_length - 1]}…"


def render_message(message: OutboundMessage) -> RenderableType:
    """Return a message as it is printed on the terminal."""
    colour, does = STYLES[message.kind]
    head = f"[bold {colour}]{escape(escape_hidden(message.agent_id))}{does}[/]"
    text = message_text(message)
    if message.agent_id == OWN_SENDER:
        # plain text, because it quotes what an agent wants to do, verbatim
        return Text.from_markup(f"{OWN_MARK} {head}\n{escape(text)}", emoji=False)
    if not MARKDOWN.search(text):
        return Text.from_markup(f"{head} {escape(text)}", emoji=False)
    return Group(Text.from_markup(head, emoji=False), _render_markdown(text))


def _render_markdown(text: str) -> Markdown:
    # without hyperlinks rich prints the address of a link instead of hiding it behind the link text
    # justify="left" would pad lines with spaces
    laid = Markdown(text, hyperlinks=False, justify="default")
    for child in (child for token in laid.parsed for child in token.children or ()):
        if child.type == "softbreak":
            # a line break in a chat message is meant as one; Telegram shows it, too
            child.type = "hardbreak"
    return laid
