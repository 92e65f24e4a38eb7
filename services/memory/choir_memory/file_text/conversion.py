"""Conversion of a file's bytes to text with Markdown headings. Loaded by the child process only.

Headings are pages of a PDF, headings of a Word document or web page, slides, and sheets of a workbook. So a
passage that search finds says where in the file it is.
"""

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import Any

import docx
import docx.table
import pptx
import pptx.shapes.group
import pypdfium2  # type: ignore[import-untyped]  # it ships no types
from python_calamine import CalamineWorkbook

from choir_memory.file_text.formats import FileFormat

MAX_CHARACTERS = 5_000_000
"""Characters of a file's text: a shelf of books, about 4,000 passages."""
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_-]{2,40})", re.IGNORECASE)
_UNICODE_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEADING_STYLE = re.compile(r"^(?:heading (\d)|title)$", re.IGNORECASE)


class ConversionError(Exception):
    """The file cannot be converted; the message says why, and follows the file's name in a sentence."""


def convert(file_format: FileFormat, content: bytes) -> str:
    """Return the text of a file; raises ConversionError, and any exception for a damaged file."""
    match file_format:
        case "pdf":
            parts = _pdf(content)
        case "word":
            parts = _word(content)
        case "slides":
            parts = _slides(content)
        case "sheet":
            parts = _sheets(content)
        case "html":
            parts = _html(content)
        case _:
            parts = iter([_decode(content)])
    text = _join(parts)
    if not text.strip():
        pictures = (
            "; text in pictures is not recognised" if file_format in ("pdf", "slides") else ""
        )
        raise ConversionError(f"contains no text{pictures}")
    return text


def _join(parts: Iterable[str]) -> str:
    accepted_parts: list[str] = []
    size = 0
    for part in parts:
        size += len(part) + 1
        if size > MAX_CHARACTERS:
            raise ConversionError(f"has more than {MAX_CHARACTERS:,} characters of text")
        accepted_parts.append(part.replace("\x00", ""))
    # lone surrogates cannot be stored
    return "\n".join(accepted_parts).encode("utf-8", "replace").decode()


def _pdf(content: bytes) -> Iterator[str]:
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise ConversionError("is encrypted with a password") from None
        raise ConversionError("is not a PDF that can be read, or it is damaged") from None
    for number in range(len(document)):
        page = document[number]
        text_page = page.get_textpage()
        text = text_page.get_text_bounded().replace("\r\n", "\n").strip()
        text_page.close()
        page.close()
        if text:
            yield f"# Page {number + 1}\n{text}\n"


def _word(content: bytes) -> Iterator[str]:
    for block in docx.Document(io.BytesIO(content)).iter_inner_content():
        if isinstance(block, docx.table.Table):
            for row in block.rows:
                # merged cells are listed once for each column that they cover
                cells = dict.fromkeys(cell.text.strip() for cell in row.cells)
                yield _row(cells)
            yield ""
            continue
        if not block.text.strip():
            continue
        style = block.style.name if block.style is not None else None
        heading = _HEADING_STYLE.match(style or "")
        if heading is None:
            yield f"{block.text}\n"
        else:
            yield f"{'#' * min(6, int(heading[1] or 1))} {' '.join(block.text.split())}\n"


def _slides(content: bytes) -> Iterator[str]:
    for number, slide in enumerate(pptx.Presentation(io.BytesIO(content)).slides, 1):
        yield f"# Slide {number}"
        yield from _shapes(slide.shapes)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            yield slide.notes_slide.notes_text_frame.text
        yield ""


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if isinstance(shape, pptx.shapes.group.GroupShape):
            yield from _shapes(shape.shapes)
            continue
        if shape.has_text_frame:
            yield shape.text_frame.text
        if shape.has_table:
            for row in shape.table.rows:
                yield _row(cell.text.strip() for cell in row.cells)


def _sheets(content: bytes) -> Iterator[str]:
    workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
    for name in workbook.sheet_names:
        rows = (_row(map(_cell, row)) for row in workbook.get_sheet_by_name(name).iter_rows())
        filled = (row for row in rows if row)
        first = next(filled, None)
        if first is not None:
            yield f"# {' '.join(name.split())}\n{first}"
            yield from filled


def _cell(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " ".join(str(value).split())


def _row(cells: Iterable[str]) -> str:
    texts = list(cells)
    return " | ".join(texts).rstrip(" |") if any(texts) else ""


def _html(content: bytes) -> Iterator[str]:
    parser = _PageParser()
    parser.feed(_decode(content, _declared_charset(content)))
    parser.close()
    parser.end_line()
    yield from parser.lines


def _declared_charset(content: bytes) -> str | None:
    match = _CHARSET.search(content[:4_096])
    name = match[1].decode("ascii") if match else ""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def _decode(content: bytes, charset: str | None = None) -> str:
    marked = next((name for mark, name in _UNICODE_MARKS if content.startswith(mark)), None)
    try:
        text = content.decode(marked or charset or "utf-8")
    except (UnicodeDecodeError, LookupError):
        raise ConversionError("is not UTF-8 text; convert it first") from None
    if "\x00" in text[:8_192]:
        raise ConversionError("is not text, whatever its name says")
    return text


class _PageParser(HTMLParser):
    """The visible text of a web page, a line for each block, headings marked with `#`."""

    HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head"))
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
            ),
            *(
                "kbd",
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
            ),
            *("var", "wbr"),
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
        if tag == "body":
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
