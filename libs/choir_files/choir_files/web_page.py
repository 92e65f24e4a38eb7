"""Text of web pages."""

import codecs
import re
from html.parser import HTMLParser

_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_-]{2,40})", re.IGNORECASE)
_NAMES = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "cp866", "cp874", "latin-1"),
    *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "gb2312", "gbk", "gb18030", "big5"),
    *("big5hkscs", "euc-jp", "shift-jis", "cp932", "iso2022-jp", "euc-kr", "cp949"),
    *(f"cp125{number}" for number in range(9)),
    *(f"iso8859-{number}" for number in range(2, 17) if number not in (11, 12)),
)
CHARSETS = frozenset(codecs.lookup(name).name for name in _NAMES)
"""Character sets of web pages, loaded with this module: the process that reads a file can load nothing."""

_AS_BROWSERS_READ = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}


def declared_charset(content: bytes) -> str | None:
    """Return the character set that a page declares, if it is a known one."""
    match = _CHARSET.search(content[:4_096])
    if match is None:
        return None
    try:
        # an unknown one is searched on disk, which is denied
        name = codecs.lookup(match[1].decode("ascii")).name
    except (LookupError, OSError):
        return None
    return _AS_BROWSERS_READ.get(name, name) if name in CHARSETS else None


class PageParser(HTMLParser):
    """The visible text of a web page, a line for each block, headings marked with `#`."""

    HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head"))
    IN_HEAD = frozenset(
        ("title", "meta", "link", "base", "script", "style", "noscript", "template")
    )
    INLINE = frozenset(
        (
            *(
                "a",
                "abbr",
                "b",
                "bdi",
                "bdo",
                "cite",
                "code",
                "data",
                "dfn",
                "em",
                "font",
                "i",
                "img",
                "kbd",
            ),
            *(
                "mark",
                "q",
                "s",
                "samp",
                "small",
                "span",
                "strong",
                "sub",
                "sup",
                "time",
                "u",
                "var",
                "wbr",
            ),
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._line: list[str] = []
        self._heading = ""
        self._hidden = ""
        """The element whose content is skipped; empty for none."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line for a block, and skip hidden elements."""
        if self._hidden == "head" and tag not in self.IN_HEAD:
            # a head that is not closed ends here
            self._hidden = ""
        if self._hidden:
            return
        if tag in self.HIDDEN:
            self._hidden = tag
        elif tag not in self.INLINE:
            self.end_line()
            if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
                self._heading = "#" * int(tag[1])

    def handle_endtag(self, tag: str) -> None:
        """End a line with its block."""
        if self._hidden:
            self._hidden = "" if tag == self._hidden else self._hidden
        elif tag not in self.INLINE:
            self.end_line()

    def handle_data(self, data: str) -> None:
        """Add text to the line."""
        if not self._hidden:
            self._line.append(data)

    def end_line(self) -> None:
        """End the current line."""
        text = " ".join("".join(self._line).split())
        self._line.clear()
        if text:
            self.lines.append(f"{self._heading} {text}\n" if self._heading else text)
            self._heading = ""
