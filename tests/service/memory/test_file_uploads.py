"""Uploaded files: read as those of folders, refused with the reason, and never more than a few at a time."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from choir_common.bus.client import Bus
from choir_common.clients import memory as memory_client
from choir_common.clients.memory import NatsCollectionsClient
from choir_common.errors import ChoirError, Conflict, InvalidRequest, TooLarge, Unavailable
from choir_common.wire.memory_collections import FilePart, FileText
from choir_files.sandbox import ReadLimits
from choir_local.nats import EmbeddedNats
from choir_memory.collections import file_uploads
from choir_memory.collections.file_uploads import DocumentFileReader
from choir_memory.endpoints import upload_endpoints
from tests.service.memory import documents
from tests.support.bus import BUS_KEY

MB = 1024 * 1024


@pytest.fixture
def uploads() -> Iterator[DocumentFileReader]:
    uploads = DocumentFileReader(ReadLimits(memory_mb=512, cpu_s=10), max_file_mb=1)
    yield uploads
    assert not uploads._uploads, "an upload was left behind"


def part(
    name: str, content: bytes, *, offset: int = 0, upload_id: str = "", last: bool = True
) -> FilePart:
    made = FilePart(
        upload_id=upload_id or str(uuid4()), name=name, offset=offset, content=content, is_last=last
    )
    # as it crosses the bus
    return FilePart.model_validate_json(made.model_dump_json())


async def upload(uploads: DocumentFileReader, path: Path) -> FileText:
    """Upload a file in two parts."""
    content, upload_id = path.read_bytes(), str(uuid4())
    half = len(content) // 2
    first = part(path.name, content[:half], upload_id=upload_id, last=False)
    assert (await uploads.add_part(first)).text is None
    return await uploads.add_part(part(path.name, content[half:], offset=half, upload_id=upload_id))


async def test_text_is_read_by_kind_and_pages_of_the_web_are_marked(
    uploads: DocumentFileReader, tmp_path: Path
) -> None:
    word, page, code = tmp_path / "boiler.docx", tmp_path / "page.html", tmp_path / "notes.unknown"
    documents.write_word(word)
    page.write_text("<h1>News</h1><script>evil()</script><p>Rain.</p>")
    code.write_text("# Kept\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n")
    read = await upload(uploads, word)
    assert "Keep it at 2 bar." in str(read.text) and read.headings and not read.is_from_web
    read = await upload(uploads, page)
    assert "Rain." in str(read.text) and "evil" not in str(read.text) and read.is_from_web
    read = await upload(uploads, code)
    assert "abc" not in str(read.text) and "# Kept" in str(read.text) and read.headings


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        ("locked.pdf", documents.write_encrypted_pdf, "is encrypted with a password"),
        ("broken.docx", lambda path: path.write_text("no document"), "broken.docx is damaged"),
        (
            "photo.png",
            lambda path: path.write_bytes(b"\x89PNG\xff\xfe"),
            "not of a kind that is read",
        ),
        ("id_rsa", lambda path: path.write_text("key"), "a file with keys"),
        ("long.txt", lambda path: path.write_text("a b " * 260_000), "characters of text"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_with_the_reason(
    uploads: DocumentFileReader,
    tmp_path: Path,
    name: str,
    write: Callable[[Path], object],
    reason: str,
) -> None:
    write(tmp_path / name)
    with pytest.raises(InvalidRequest, match=reason):
        await upload(uploads, tmp_path / name)


async def test_uploads_are_limited_in_size_order_and_number(
    uploads: DocumentFileReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> FilePart:
        return part("a.txt", b"half", last=False)

    large = start()
    await uploads.add_part(large)
    with pytest.raises(TooLarge, match="larger than 1 MB"):
        await uploads.add_part(
            part("a.txt", bytes(MB), offset=4, upload_id=large.upload_id, last=False)
        )
    with pytest.raises(Conflict, match="interrupted"):
        await uploads.add_part(part("a.txt", b"", offset=MB, upload_id=large.upload_id))
    other, another = start(), start()
    await uploads.add_part(other)
    await uploads.add_part(another)
    with pytest.raises(Unavailable, match="already"):
        await uploads.add_part(start())
    with pytest.raises(Conflict):
        await uploads.add_part(part("a.txt", b"gap", offset=9, upload_id=other.upload_id))
    # what was given up makes room
    monkeypatch.setattr(file_uploads, "IDLE_S", 0.0)
    assert (await uploads.add_part(part("b.txt", b"whole"))).text == "whole"
    with pytest.raises(ChoirError):
        await uploads.add_part(part("a.txt", b"", offset=4, upload_id=other.upload_id))
    uploads.close()


async def test_all_parts_reach_the_replica_that_has_the_first_one(
    nats: EmbeddedNats, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_client, "PART_TIMEOUT_S", 1.0)
    limits, client = ReadLimits(memory_mb=512, cpu_s=10), NatsCollectionsClient(bus)
    replicas = [DocumentFileReader(limits, max_file_mb=1) for _ in range(2)]
    async with contextlib.AsyncExitStack() as stack:
        for replica in replicas:
            other = await stack.enter_async_context(Bus(nats.url, BUS_KEY, "test"))
            await stack.enter_async_context(
                other.serve("choir-memory", "1.0.0", *upload_endpoints(replica))
            )
        for number in range(4):
            upload_id, answer = str(uuid4()), FileText()
            for place in range(10):
                content = f"{number}{place} ".encode()
                answer = await client.read_file(
                    part("a.txt", content, offset=3 * place, upload_id=upload_id, last=place == 9)
                )
            assert answer.text == "".join(f"{number}{place} " for place in range(10))
        lost = part("a.txt", b"half", last=False)
        await client.read_file(lost)
        for replica in replicas:
            replica.close()
        more = part("a.txt", b"more", offset=4, upload_id=lost.upload_id, last=False)
        # at once by the replica that dropped it, and after a time if that one was restarted
        with pytest.raises(Conflict, match="interrupted"):
            await client.read_file(more)
        for replica in replicas:
            replica._dropped.clear()
        with pytest.raises(Conflict, match="interrupted"):
            await client.read_file(more)
