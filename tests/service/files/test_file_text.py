"""Files become text in a child process with limits; hostile ones end with a word about themselves."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from choir_files.errors import UnreadableFile
from choir_files.formats import FileFormat, detect_format
from choir_files.reader import FileReader
from choir_files.sandbox import ALLOWED_CALLS, ReadLimits
from tests.service.memory import documents

LIMITS = ReadLimits(memory_mb=512, cpu_s=6)
OTHER_LIMITS = ReadLimits(memory_mb=512, cpu_s=7)
OLD_OFFICE = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2_000)
"""The beginning of an encrypted Office file."""


@pytest.fixture(scope="module")
def reader() -> Iterator[FileReader]:
    made = FileReader(LIMITS)
    yield made
    made.close()


def read(reader: FileReader, path: Path) -> str:
    file_format = detect_format(path.name)
    assert file_format is not None
    return read_as(reader, path, file_format)


def read_as(reader: FileReader, path: Path, file_format: FileFormat) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return reader.read(descriptor, file_format)
    finally:
        os.close(descriptor)


def test_office_files_become_text_with_headings(reader: FileReader, tmp_path: Path) -> None:
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
    assert (
        read(reader, sheet) == "# Costs\nitem | price\nladder | 79\nbought | 2024-03-01 | 09:30:00"
    )


def test_an_open_document_becomes_text_with_headings(reader: FileReader, tmp_path: Path) -> None:
    path = tmp_path / "a.odt"
    documents.write_open_document(path)
    assert read(reader, path).split("\n") == [
        *("## Winter", "", "Drain  the pipes.", "", "valve | brass", "")
    ]


def test_a_word_document_keeps_what_a_reader_sees(reader: FileReader, tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    documents.write_word(path)
    documents.replace_part(path, "word/document.xml", documents.TRACKED_DOCUMENT.encode())
    assert read(reader, path).split("\n") == [
        *("# Plan", "", "In the box.", "", "It was inserted in a form.", ""),
        *("outer | inner cell", "", "After\ta tab.", ""),
    ]


def test_a_pdf_becomes_text_with_the_numbers_of_its_pages(
    reader: FileReader, tmp_path: Path
) -> None:
    path = tmp_path / "report.pdf"
    documents.write_pdf(path, "The bridge was built in 1921.", "", "It was painted green.")
    text = read(reader, path)
    assert text.split("\n") == [
        *("# Page 1", "The bridge was built in 1921.", ""),
        *("# Page 3", "It was painted green.", ""),
    ]


def test_a_web_page_becomes_what_a_reader_sees(reader: FileReader, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<html><head><title>T</title><style>p {}</style></head><body><h2>Opening <i>hours</i></h2>"
        "<p>Daily from <b>nine</b>\n to five.<script>alert(1)</script><ul><li>not Sunday</ul>&copy;"
    )
    assert read(reader, path).split("\n") == [
        *("## Opening hours", "", "Daily from nine to five.", "not Sunday", "©")
    ]
    path.write_text("<head><title>T</title><h1>No end of the head</h1>")
    assert read(reader, path) == "# No end of the head\n"


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        *(
            ("big5", "香港"),
            ("windows-1252", "café – “now”"),
            ("koi8-r", "привет"),
            ("shift_jis", "東京"),
        ),
        *(("gb2312", "简体中文"), ("euc-kr", "서울"), ("iso-8859-2", "žluťoučký")),
    ],
)
def test_a_web_page_is_read_in_the_character_set_that_it_declares(
    reader: FileReader, tmp_path: Path, charset: str, text: str
) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(f'<meta charset="{charset}"><p>{text}</p>'.encode(charset))
    assert read(reader, path) == text
    path.write_bytes(b'<meta charset="no-such-set"><p>plain</p>')
    assert read(reader, path) == "plain"


def test_text_is_read_as_it_is(reader: FileReader, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("# one\nprint('é')\n")
    assert read(reader, path) == "# one\nprint('é')\n"
    path.write_bytes("wide".encode("utf-16"))
    assert read(reader, path) == "wide"


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        ("bomb.docx", documents.write_zip_bomb, "unpacks to more than 200 MB"),
        ("laughs.docx", documents.write_entities, "contains a document type"),
        ("nested.docx", documents.write_nested_word, "nested too deeply"),
        ("far.xlsx", documents.write_sparse_sheet, "MB of memory"),
        ("locked.docx", lambda path: path.write_bytes(OLD_OFFICE), "encrypted with a password"),
        ("locked.xlsx", lambda path: path.write_bytes(OLD_OFFICE), "damaged"),
        ("locked.pdf", documents.write_encrypted_pdf, "encrypted with a password"),
        (
            "endless.pdf",
            documents.write_endless_pdf,
            "took more than|more than 5,000,000 characters",
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
    reader: FileReader,
    tmp_path: Path,
    name: str,
    write: Callable[[Path], object],
    reason: str,
) -> None:
    path, good = tmp_path / name, tmp_path / "good.md"
    write(path)
    good.write_text("# Fine")
    with pytest.raises(UnreadableFile, match=reason):
        read(reader, path)
    assert read(reader, good) == "# Fine"


CONFINED = """
import os, socket, sys
from choir_files.sandbox import ALLOWED_CALLS, ReadLimits, confine
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
    lambda: os.mkfifo("/tmp/none"),
    lambda: os.symlink("/", "/tmp/none"),
    lambda: os.pidfd_open(os.getppid()),
    lambda: os.memfd_create("none"),
    lambda: os.readlink("/proc/self/exe"),
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


def test_no_file_is_read_if_the_process_cannot_be_confined(tmp_path: Path) -> None:
    # a kernel that refuses system calls of another processor stands for one without seccomp
    script = (
        "from choir_files import child, sandbox\n"
        "sandbox.ARCHITECTURES.clear()\n"
        "child.main('512', '5')\n"
    )
    path = tmp_path / "page.html"
    path.write_text("<p>words")
    reader = FileReader(LIMITS, [sys.executable, "-c", script])
    try:
        with pytest.raises(
            UnreadableFile, match="not read on this system.*no list of system calls"
        ):
            read(reader, path)
    finally:
        reader.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers are those of Linux")
def test_the_numbers_of_the_allowed_system_calls_are_those_of_the_kernel() -> None:
    names = {"x86_64": {}, "aarch64": {}}
    for machine, header, pattern in (
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
        ("aarch64", "/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
    ):
        if Path(header).exists():
            names[machine] = {
                int(number): name for name, number in re.findall(pattern, Path(header).read_text())
            }
    if not all(names.values()):
        pytest.skip("the headers of the kernel are not installed")
    allowed = {
        machine: {names[machine][number] for number in numbers}
        for machine, numbers in ALLOWED_CALLS.items()
    }
    assert allowed["x86_64"] ^ allowed["aarch64"] == {
        *("time", "getrlimit", "poll", "newfstatat", "fstatat"),
    }
    risky = {
        "open",
        "openat",
        "socket",
        "connect",
        "clone",
        "clone3",
        "execve",
        "kill",
        "ptrace",
        "ioctl",
    }
    assert not risky & (allowed["x86_64"] | allowed["aarch64"])


def test_the_reading_process_can_open_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"confined", 0), done.stderr


def children() -> list[psutil.Process]:
    """Return the processes that read files for this test."""
    limits = str(OTHER_LIMITS.cpu_s)
    return [
        process
        for process in psutil.Process().children()
        if process.status() != psutil.STATUS_ZOMBIE
        and process.cmdline()[-1:] == [limits]
        and "choir_files.child" in process.cmdline()
    ]


def test_the_service_does_not_load_the_libraries_and_the_child_ends(tmp_path: Path) -> None:
    script = (
        "import sys, choir_memory.app; "
        "print([name for name in ('pypdfium2', 'python_calamine', 'choir_files.conversion') "
        "if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert loaded.stdout == b"[]\n"
    path = tmp_path / "a.md"
    path.write_text("text")
    reader = FileReader(OTHER_LIMITS)
    assert read(reader, path) == "text"
    assert not children(), "plain text needs no other process"
    path = tmp_path / "a.html"
    path.write_text("text")
    read(reader, path)
    (child,) = children()
    assert set(child.environ()) <= {"LANG", "LC_CTYPE"}, "no secrets of the service"
    assert child.cwd() == "/"
    reader.close()
    assert not child.is_running()
