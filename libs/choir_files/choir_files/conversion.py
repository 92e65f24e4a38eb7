"""Conversion of a file's bytes to text with Markdown headings. Loaded by the child process only.

Headings are pages of a PDF, headings of a Word document or web page, slides, and sheets of a workbook. So a
passage that search finds says where in the file it is.
"""

import io
from collections.abc import Iterable, Iterator
from datetime import datetime, time

import pypdfium2  # type: ignore[import-untyped]  # it ships no types
from python_calamine import CalamineWorkbook, PasswordError

from choir_files.errors import UnreadableFile
from choir_files.formats import ParsedFormat
from choir_files.office import read_slides, read_word
from choir_files.office_text import join_row
from choir_files.plain_text import MAX_CHARACTERS, check_text, decode_text
from choir_files.web_page import PageParser, declared_charset


def convert(file_format: ParsedFormat, content: bytes) -> str:
    """Return the text of a file; raises UnreadableFile, and any exception for a damaged file."""
    match file_format:
        case "pdf":
            parts = _pdf(content)
        case "word":
            parts = read_word(content)
        case "slides":
            parts = read_slides(content)
        case "sheet":
            parts = _sheets(content)
        case "html":
            parts = _html(content)
    text = _join(parts)
    if not text.strip() and file_format in ("pdf", "slides"):
        raise UnreadableFile("contains no text; text in pictures is not recognised")
    return check_text(text)


def _join(parts: Iterable[str]) -> str:
    accepted_parts: list[str] = []
    size = 0
    for part in parts:
        size += len(part) + 1
        if size > MAX_CHARACTERS:
            raise UnreadableFile(f"has more than {MAX_CHARACTERS:,} characters of text")
        accepted_parts.append(part)
    return "\n".join(accepted_parts)


def count_pages(content: bytes) -> int:
    """Return the number of pages of a PDF; raises UnreadableFile."""
    return len(_open_pdf(content))


def _open_pdf(content: bytes) -> "pypdfium2.PdfDocument":
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableFile("is encrypted with a password") from None
        raise UnreadableFile("is not a PDF that can be read, or it is damaged") from None


def _pdf(content: bytes) -> Iterator[str]:
    document = _open_pdf(content)
    for number in range(len(document)):
        page = document[number]
        text_page = page.get_textpage()
        text = text_page.get_text_bounded().replace("\r\n", "\n").strip()
        text_page.close()
        page.close()
        if text:
            yield f"# Page {number + 1}\n{text}\n"


def _sheets(content: bytes) -> Iterator[str]:
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
    except PasswordError:
        raise UnreadableFile("is encrypted with a password") from None
    for name in workbook.sheet_names:
        rows = (join_row(map(_cell, row)) for row in workbook.get_sheet_by_name(name).iter_rows())
        filled = (row for row in rows if row)
        first = next(filled, None)
        if first is not None:
            yield f"# {' '.join(name.split())}\n{first}"
            yield from filled


def _cell(value: object) -> str:
    match value:
        case float() if value.is_integer():
            return str(int(value))
        case datetime() if value.time() == time.min:
            return value.date().isoformat()
        case _:
            return " ".join(str(value).split())


def _html(content: bytes) -> Iterator[str]:
    parser = PageParser()
    parser.feed(decode_text(content, declared_charset(content)))
    parser.close()
    parser.end_line()
    yield from parser.lines
