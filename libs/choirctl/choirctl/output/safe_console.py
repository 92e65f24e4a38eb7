"""The rich console of choirctl: passes rich's own escape sequences, and makes those in a text visible.

Created by `printing` for commands and by `terminal_chat` for a chat.
"""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from choir_common.escape_text import escape_hidden
from choirctl.output.language import tr
from choirctl.output.terminal import unwrap_stream


class SafeConsole(Console):
    """A rich console that replaces hidden characters by visible escapes and prints no hyperlinks."""

    def __init__(self, *, stderr: bool = False, **how: Any) -> None:
        # emoji=False: `:cd:` is an emoji to rich, and occurs in fingerprints and in people's messages
        super().__init__(
            file=unwrap_stream(sys.stderr if stderr else sys.stdout), emoji=False, **how
        )

    def render_str(self, text: str, **how: Any) -> Text:
        # before the layout, so that column widths fit the text that is printed
        return super().render_str(escape_hidden(tr(text)), **how)

    def status(self, status: RenderableType, **how: Any) -> Status:
        return super().status(tr(status) if isinstance(status, str) else status, **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else _make_safe(segment)


def _make_safe(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link:
        style = style.clear_meta_and_links()
    return Segment(escape_hidden(segment.text), style)
