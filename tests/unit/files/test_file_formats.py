"""Which files of a folder are read, and what their bytes become."""

import pytest

from choir_files.formats import detect_format, has_headings
from choir_memory.collections.chunking import split_document


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.PDF", "pdf"),
        ("a.b.docx", "word"),
        ("deck.pptx", "slides"),
        ("costs.xlsx", "sheet"),
        ("page.htm", "html"),
        ("README", "text"),
        ("Makefile", "text"),
        ("notes.md", "markdown"),
        ("main.rs", "text"),
        ("photo.jpg", None),
        ("id_rsa", None),
        ("server.pem", None),
        ("archive.zip", None),
    ],
)
def test_the_name_of_a_file_tells_how_it_is_read(name: str, expected: str | None) -> None:
    assert detect_format(name) == expected


def test_a_comment_in_source_code_is_no_heading() -> None:
    source = "# Configuration\nx = 1\n# Start\nrun(x)\n"
    assert not has_headings("text") and has_headings("pdf")
    assert [piece.headings for piece in split_document(source, headings=False)] == [()]
    assert len(split_document(source)) == 2
