"""Files become text in a child process with limits; hostile ones end with a word about themselves."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from choir_memory.file_text.formats import FileFormat, detect_format
from choir_memory.file_text.reader import FileTextReader, UnreadableFile
from choir_memory.file_text.sandbox import ReadLimits
from tests.service.memory import documents

LIMITS = ReadLimits(memory_mb=512, cpu_s=6)


@pytest.fixture(scope="module")
def reader() -> Iterator[FileTextReader]:
    made = FileTextReader(LIMITS)
    yield made
    made.close()


def read(reader: FileTextReader, path: Path) -> str:
    file_format = detect_format(path.name)
    assert file_format is not None
    return read_as(reader, path, file_format)


def read_as(reader: FileTextReader, path: Path, file_format: FileFormat) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return reader.read(descriptor, file_format)
    finally:
        os.close(descriptor)


def test_office_files_become_text_with_headings(reader: FileTextReader, tmp_path: Path) -> None:
    word, slides, sheet = tmp_path / "a.docx", tmp_path / "b.pptx", tmp_path / "c.xlsx"
    documents.write_word(word)
    documents.write_slides(slides)
    documents.write_sheet(sheet)
    assert read(reader, word).split("\n") == [
        *("## Pressure", "", "Keep it at 2 bar.", "", "valve | brass", "")
    ]
    assert (
        " ".join(read(reader, slides).split()) == "# Slide 1 Quarterly harvest Mention the plums."
    )
    assert read(reader, sheet) == "# Costs\nitem | price\nladder | 79"


def test_a_pdf_becomes_text_with_the_numbers_of_its_pages(
    reader: FileTextReader, tmp_path: Path
) -> None:
    path = tmp_path / "report.pdf"
    documents.write_pdf(path, "The bridge was built in 1921.", "", "It was painted green.")
    text = read(reader, path)
    assert text.split("\n") == [
        *("# Page 1", "The bridge was built in 1921.", ""),
        *("# Page 3", "It was painted green.", ""),
    ]


def test_a_web_page_becomes_what_a_reader_sees(reader: FileTextReader, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<html><head><title>T</title><style>p {}</style></head><body><h2>Opening <i>hours</i></h2>"
        "<p>Daily from <b>nine</b>\n to five.<script>alert(1)</script><ul><li>not Sunday</ul>&copy;"
    )
    assert read(reader, path).split("\n") == [
        *("## Opening hours", "", "Daily from nine to five.", "not Sunday", "©")
    ]
    path.write_bytes('<meta charset="big5"><p>香港</p>'.encode("big5"))
    assert read(reader, path) == "香港"


def test_text_is_read_as_it_is(reader: FileTextReader, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("# one\nprint('é')\n")
    assert read(reader, path) == "# one\nprint('é')\n"
    path.write_bytes("wide".encode("utf-16"))
    assert read(reader, path) == "wide"


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        ("bomb.docx", documents.write_zip_bomb, "MB of memory"),
        ("laughs.docx", documents.write_entities, "damaged"),
        (
            "endless.pdf",
            documents.write_endless_pdf,
            "seconds of CPU|more than 5,000,000 characters",
        ),
        (
            "empty.pdf",
            lambda path: documents.write_pdf(path, ""),
            "contains no text; text in pictures",
        ),
        ("broken.pdf", lambda path: path.write_bytes(b"%PDF-1.7 nothing"), "not a PDF"),
        ("broken.xlsx", lambda path: path.write_bytes(b"PK\x03\x04 nothing"), "damaged"),
        ("picture.txt", lambda path: path.write_bytes(b"\x89PNG\xff\xfe"), "not UTF-8 text"),
        ("zero.txt", lambda path: path.write_bytes(b"a\x00b"), "not text"),
        ("empty.md", lambda path: path.write_bytes(b" \n"), "contains no text"),
        ("deep.html", lambda path: path.write_text("<div>" * 300_000), "contains no text"),
        ("long.txt", lambda path: path.write_text("word " * 1_000_001), "more than 5,000,000"),
    ],
)
def test_a_hostile_file_ends_with_a_word_and_the_next_is_read(
    reader: FileTextReader,
    tmp_path: Path,
    name: str,
    write: Callable[[Path], object],
    reason: str,
) -> None:
    path, good = tmp_path / name, tmp_path / "good.md"
    write(path)
    good.write_text("# Fine")
    if name == "laughs.docx":
        # entities stay unresolved, or the file is refused: never expanded, and no other file is read
        try:
            text = read(reader, path)
        except UnreadableFile as error:
            text = str(error)
        assert "laugh" not in text and "root:" not in text
    else:
        with pytest.raises(UnreadableFile, match=reason):
            read(reader, path)
    assert read(reader, good) == "# Fine"


CONFINED = """
import os, socket, sys
from choir_memory.file_text.sandbox import ReadLimits, confine
ours, theirs = os.pipe()
confine(ReadLimits(512, 5))
def is_denied(action):
    try:
        action()
    except OSError:
        return True
    return False
for action in (
    lambda: open("/etc/passwd"),
    lambda: open("/tmp/new", "w"),
    lambda: socket.socket(),
    lambda: socket.socketpair(),
    lambda: os.fork(),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: os.kill(os.getppid(), 0),
    lambda: os.unlink("/tmp/none"),
    lambda: os.listdir("/"),
):
    assert is_denied(action), action
try:
    bytearray(1 << 30)
except MemoryError:
    os.write(theirs, b"x")
    assert os.read(ours, 1) == b"x"
    os.write(1, b"confined")
os._exit(0)
"""


def test_the_reading_process_can_open_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"confined", 0), done.stderr


def test_the_service_does_not_load_the_libraries_and_the_child_ends(tmp_path: Path) -> None:
    script = (
        "import sys, choir_memory.app; "
        "print([name for name in ('docx', 'pptx', 'lxml', 'pypdfium2', 'python_calamine', 'PIL') "
        "if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert loaded.stdout == b"[]\n"
    path = tmp_path / "a.md"
    path.write_text("text")
    reader = FileTextReader(LIMITS)
    read(reader, path)
    (child,) = [
        process
        for process in psutil.Process().children()
        if "choir_memory.file_text.child" in process.cmdline()
        and str(LIMITS.memory_mb) in process.cmdline()
    ][-1:]
    reader.close()
    assert not child.is_running()
