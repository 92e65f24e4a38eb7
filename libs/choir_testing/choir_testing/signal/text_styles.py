"""The parser of the mode `styled`, with all its peculiarities. Pure.

A port of `src/utils/textstyleparser.go` of signal-cli-rest-api; positions are in UTF-16 units.
"""

from dataclasses import dataclass, field

ESCAPE = "\\"
STYLES = {
    "***": ("BOLD", "ITALIC"),
    "**": ("BOLD",),
    "*": ("ITALIC",),
    "||": ("SPOILER",),
    "~": ("STRIKETHROUGH",),
    "`": ("MONOSPACE",),
}


@dataclass(slots=True)
class _Parser:
    source: str
    at: int = 0
    text: str = ""
    styles: list[str] = field(default_factory=list)
    opened: list[tuple[int, str]] = field(default_factory=list)

    def take_token(self) -> str:
        """Read a symbol, or one character."""
        rest = self.source[self.at :]
        token = next((it for it in STYLES if rest.startswith(it)), rest[0])
        self.at += len(token)
        return token

    def handle(self, token: str) -> None:
        """Open or close a style."""
        position = len(self.text.encode("utf-16-le")) // 2
        if self.opened and self.opened[-1][1] == token:
            start, _ = self.opened.pop()
            self.styles += [f"{start}:{position - start}:{style}" for style in STYLES[token]]
        else:
            self.opened.append((position, token))


def parse_styled(source: str) -> tuple[str, tuple[str, ...]]:
    """Return the text that is sent and its styles."""
    parser, previous = _Parser(source), ""
    while parser.at < len(source):
        token = parser.take_token()
        if token in STYLES and previous == ESCAPE:
            parser.text += token
        elif token in STYLES:
            parser.handle(token)
        elif token == ESCAPE and source[parser.at : parser.at + 1] in ("*", "`", "|", "~"):
            pass
        else:
            parser.text += token
        previous = token[0]
    return parser.text, tuple(parser.styles)
