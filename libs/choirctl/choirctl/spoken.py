"""Lay out what is said in a conversation for a terminal: Markdown as text, and nothing that moves a cursor.

Pure. Used by `talk`, `past` and `lanes`.
"""

import re
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.markup import escape
from rich.text import Text

from choir_common.visible_text import make_visible
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import OutboundMessage

# a report is of a job, and comes whenever that is done
STYLES: Mapping[ReplyKind, tuple[str, str]] = {
    "answer": ("cyan", ""),
    "error": ("red", ""),
    "notice": ("yellow", ""),
    "message": ("cyan", ""),
    "report": ("magenta", " reports:"),
}
# one of these, and the words are laid out as Markdown
MARKED = re.compile(r"\n|[*_`#|\[\]]|^\s*(?:[-+>]|\d+\.)\s")


def one_line(text: str, longest: int) -> str:
    """Return a text on one line, cut where it gets long."""
    flat = " ".join(make_visible(text).split())
    return flat if len(flat) <= longest else f"{flat[: longest - 1]}…"


def heard(message: OutboundMessage) -> RenderableType:
    """Return a message as it stands on the terminal."""
    colour, does = STYLES[message.kind]
    head = f"[bold {colour}]{escape(make_visible(message.agent_id))}{does}[/]"
    text = make_visible(message.text)
    if message.agent_id == "choir" or not MARKED.search(text):
        # Choir's own words are plain: what an agent wants to do is shown in them as it is
        return Text.from_markup(f"{head} {escape(text)}", emoji=False)
    return Group(Text.from_markup(head, emoji=False), _laid_out(text))


def _laid_out(text: str) -> Markdown:
    # the address of a link is shown, not hidden behind its words
    laid = Markdown(
        text, hyperlinks=False, justify="default"
    )  # "left" would fill lines with blanks
    for child in (child for token in laid.parsed for child in token.children or ()):
        if child.type == "softbreak":
            # who writes a line in a talk means a line, as Telegram shows it, too
            child.type = "hardbreak"
    return laid
