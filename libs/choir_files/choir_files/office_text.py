"""The visible text of a part of an Office file: paragraphs, headings and rows of tables."""

from collections.abc import Iterable, Mapping

MAX_DEPTH = 500
"""Paragraphs and tables inside each other; more is an attack."""


class PartHandler:
    """Handler of the elements of a part, which does nothing; names are without their namespace."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""

    def end(self, tag: str) -> None:
        """Handle the end of an element."""

    def data(self, text: str) -> None:
        """Handle text."""


class PartText(PartHandler):
    """The lines of a part; `levels` are the heading levels of paragraph styles.

    Word and PowerPoint use the same names: `p` paragraph, `t` text, `tbl`, `tr` and `tc` table, row and cell.
    """

    SKIPPED = frozenset(("Fallback", "moveFrom", "pPr", "rPr", "instrText", "delText", "fld"))
    """Repetitions for old programs, moved and deleted text, formats, and fields such as page numbers."""
    BREAKS: Mapping[str, str] = {"br": "\n", "cr": "\n", "tab": "\t", "noBreakHyphen": "-"}
    PAGE_MARKS = frozenset(("sldNum", "dt", "ftr", "hdr"))
    """Placeholders of a slide that every slide repeats."""

    def __init__(self, levels: Mapping[str, int]) -> None:
        self._levels = levels
        self._lines: list[str] = []
        self._paragraphs: list[list[str]] = []
        """Paragraphs that are open: a text box stands inside a paragraph."""
        self._rows: list[list[list[str]]] = []
        """Rows that are open, each with its cells, each with its texts."""
        self._level = 0
        self._skipped = ""
        self._depth = 0
        self._is_text = False

    def take_lines(self) -> list[str]:
        """Return the lines that are complete, once."""
        lines, self._lines = self._lines, []
        return lines

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open a paragraph, row or cell."""
        if self._skipped:
            self._depth += tag == self._skipped
            self._note_style(tag, attributes)
            return
        match tag:
            case _ if tag in self.SKIPPED:
                self._skipped, self._depth = tag, 1
            case "p":
                self._check_depth()
                self._paragraphs.append([])
                self._level = 0
            case "t":
                self._is_text = True
            case "tr":
                self._check_depth()
                self._rows.append([])
            case "tc" if self._rows:
                self._rows[-1].append([])
            case "ph" if attributes.get("type") in self.PAGE_MARKS:
                self._skipped, self._depth = "sp", 1
            case _ if tag in self.BREAKS and self._paragraphs:
                self._paragraphs[-1].append(self.BREAKS[tag])
            case _:
                pass

    def end(self, tag: str) -> None:
        """Close a paragraph, row or table."""
        if self._skipped:
            self._depth -= tag == self._skipped
            self._skipped = self._skipped if self._depth else ""
            return
        match tag:
            case "p" if self._paragraphs:
                self._end_paragraph("".join(self._paragraphs.pop()).strip())
            case "t":
                self._is_text = False
            case "tr" if self._rows:
                cells = (" ".join(" ".join(texts).split()) for texts in self._rows.pop())
                self._add(join_row(cells))
            case "tbl" if not self._rows:
                self._lines.append("")
            case _:
                pass

    def data(self, text: str) -> None:
        """Add text to the innermost paragraph."""
        if self._is_text and not self._skipped and self._paragraphs:
            self._paragraphs[-1].append(text)

    def _note_style(self, tag: str, attributes: Mapping[str, str]) -> None:
        value = attributes.get("val", "")
        if self._skipped != "pPr":
            return
        if tag == "pStyle":
            self._level = self._levels.get(value, 0)
        elif tag == "outlineLvl" and value.isdigit():
            self._level = int(value) + 1 if int(value) < 9 else 0

    def _end_paragraph(self, text: str) -> None:
        level, self._level = self._level, 0
        if not text:
            return
        if level and not self._rows:
            self._lines.append(f"{'#' * min(6, level)} {' '.join(text.split())}\n")
        else:
            self._add(text if self._rows else f"{text}\n")

    def _add(self, text: str) -> None:
        if not self._rows:
            self._lines.append(text)
        elif self._rows[-1]:
            self._rows[-1][-1].append(text)

    def _check_depth(self) -> None:
        if len(self._paragraphs) + len(self._rows) > MAX_DEPTH:
            raise RecursionError


class OpenDocumentText(PartText):
    """The lines of an OpenDocument text or presentation, whose elements have other names."""

    SKIPPED = frozenset(
        ("annotation", "tracked-changes", "note-citation", "page-number", "date", "time")
    )
    BREAKS: Mapping[str, str] = {"line-break": "\n", "tab": "\t"}
    NAMES: Mapping[str, str] = {"h": "p", "table": "tbl", "table-row": "tr", "table-cell": "tc"}
    MAX_SPACES = 100

    def __init__(self) -> None:
        super().__init__({})
        self._is_text = True
        self._slides = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open a paragraph, row, cell or slide."""
        super().start(self.NAMES.get(tag, tag), attributes)
        if self._skipped:
            return
        value = attributes.get("outline-level" if tag == "h" else "c", "1")
        number = int(value) if value.isdigit() and len(value) < 4 else 1
        match tag:
            case "h":
                self._level = number
            case "s":
                # several spaces are one element
                self.data(" " * min(number, self.MAX_SPACES))
            case "page":
                self._slides += 1
                self._lines.append(f"# Slide {self._slides}")
            case _:
                pass

    def end(self, tag: str) -> None:
        """Close a paragraph, row or table."""
        super().end(self.NAMES.get(tag, tag))


def join_row(cells: Iterable[str]) -> str:
    """Return the cells of a table's row as a line, empty if all are."""
    texts = list(cells)
    return " | ".join(texts).rstrip(" |") if any(texts) else ""
