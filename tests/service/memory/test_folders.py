"""A collection follows a folder: what changes is read, the rest costs nothing, what is gone leaves."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from choir_common.clients.memory import NatsCollectionsClient, NatsMemoryClient
from choir_common.clock import SystemClock
from choir_common.errors import Conflict, InvalidRequest
from choir_common.wire.memory_collections import (
    AddDocument,
    CollectionView,
    FollowFolder,
    ListCollections,
    ListDocuments,
    RemoveDocuments,
)
from choir_common.wire.memory_recall import ReadReminders
from choir_memory.collections import folder_scan
from choir_memory.reminders.service import ReminderService
from tests.service.memory import documents
from tests.service.memory.conftest import Room
from tests.service.memory.folder_services import make_folder_services
from tests.service.memory.servers import MakeMemory, until

MANUAL = "# Boiler\n## Pressure\nKeep it between 1 and 2 bar.\n"


class Library:
    """A followed folder of agent `main`, scanned when a test says so."""

    def __init__(self, room: Room, folder: Path, home: Path) -> None:
        self.room, self.folder = room, folder
        services = make_folder_services(room, home)
        self.store, self.reader, self.scanner = services.store, services.reader, services.scanner
        self.service, self.documents = services.folders, services.collections

    async def follow(self, folder: Path | None = None) -> CollectionView:
        request = FollowFolder(
            agent_id="main", collection="house", folder=str(folder or self.folder)
        )
        (view,) = (await self.service.follow(request)).collections
        return view

    async def scan(self) -> CollectionView | None:
        """Scan the folder to the end; return the collection then."""
        folder = await self.store.find("main", "house")
        assert folder is not None
        await self.scanner.run_turn(folder)
        return await self.finish()

    async def finish(self) -> CollectionView | None:
        """Continue a scan to the end; return the collection then."""
        while (folder := await self.store.find("main", "house")) and folder.state in (
            *("reading", "removing"),
        ):
            await self.scanner.run_turn(folder)
        return await self.view()

    async def view(self) -> CollectionView | None:
        listed = await self.service.list_collections(ListCollections(agent_id="main"))
        return next((view for view in listed.collections if view.name == "house"), None)

    async def files(self) -> dict[str, str]:
        """Return the problem of each file, empty for none."""
        page = await self.service.list_documents(ListDocuments(agent_id="main", collection="house"))
        return {document.name: document.problem for document in page.documents}

    async def find(self, words: str) -> list[str]:
        return [hit.text for hit in (await self.room.ask(words, mode="text")).hits]

    async def rows(self) -> list[tuple[UUID, int]]:
        """Return the pieces with the number of their vectors."""
        rows = await self.room.database.fetch(
            "SELECT d.id, count(e.part) AS vectors FROM choir_main.knowledge_documents d "
            "LEFT JOIN choir_main.knowledge_embeddings e ON e.document_id = d.id GROUP BY 1 ORDER BY 1"
        )
        return [(row["id"], row["vectors"]) for row in rows]

    async def embed(self) -> None:
        while await self.room.queue.embed_batch():
            pass


@pytest.fixture
def library(room: Room, tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "house"
    folder.mkdir()
    made = Library(room, folder, tmp_path / "home")
    yield made
    made.reader.close()


def write(path: Path, text: str, age_s: float = 100.0) -> None:
    """Write a file that was changed some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    when = path.stat().st_mtime - age_s
    os.utime(path, (when, when))


async def test_files_of_a_folder_are_found_by_what_they_say(library: Library) -> None:
    write(library.folder / "manual.md", MANUAL)
    write(library.folder / "code" / "pump.py", "# the pump\ndef start(): pass\n")
    documents.write_word(library.folder / "guide.docx", text="Descale it in spring.")
    documents.write_pdf(library.folder / "bill.pdf", "Paid 80 francs to Mr Huber.")
    write(library.folder / ".hidden.md", "hidden words")
    write(library.folder / "node_modules" / "x.js", "hidden words")
    write(library.folder / "photo.jpg", "hidden words")
    (library.folder / "link.md").symlink_to("/etc/hostname")
    view = await library.follow()
    assert view.folder is not None and view.folder.state == "waiting"
    view = await library.scan()
    assert view is not None and view.folder is not None
    assert (view.folder.state, view.folder.files, view.documents) == ("current", 4, 4)
    bar, *_ = await library.find("pressure bar")
    assert bar.startswith("manual.md › Boiler › Pressure\n")
    (bill,) = await library.find("francs Huber")
    assert bill.startswith("bill.pdf › Page 1\n")
    assert (await library.find("descale"))[0].startswith("guide.docx › Pressure\n")
    assert (await library.find("start pump"))[0].startswith("code/pump.py\n")
    assert await library.find("hidden") == []


async def test_only_what_changed_is_read_again(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        write(library.folder / f"{number}.md", f"note number {number}")
    await library.follow()
    await library.scan()
    opened: list[str] = []
    real = folder_scan.open_file

    def record(root: str, path: str, max_bytes: int) -> folder_scan.FileContent:
        opened.append(path)
        return real(root, path, max_bytes)

    monkeypatch.setattr(folder_scan, "open_file", record)
    before = await library.room.database.fetch(
        "SELECT * FROM choir_memory.folder_files ORDER BY id"
    )
    await library.scan()
    assert opened == []
    after = await library.room.database.fetch("SELECT * FROM choir_memory.folder_files ORDER BY id")
    assert before == after
    write(library.folder / "3.md", "another text", age_s=50.0)
    # another time, but the same content: hashed, not stored again
    os.utime(library.folder / "4.md", (1_700_000_000, 1_700_000_000))
    rows = await library.rows()
    await library.scan()
    assert sorted(opened) == ["3.md", "4.md"]
    assert len(set(rows) & set(await library.rows())) == 4
    assert await library.find("number 3") != await library.find("another")
    assert len(await library.find("another")) == 1


async def test_what_is_deleted_leaves_and_what_is_renamed_keeps_its_vectors(
    library: Library,
) -> None:
    write(library.folder / "old.md", MANUAL)
    write(library.folder / "gone.md", "A poem about plums.")
    await library.follow()
    await library.scan()
    await library.embed()
    before = await library.rows()
    assert all(vectors for _, vectors in before)
    (library.folder / "gone.md").unlink()
    (library.folder / "archive").mkdir()
    (library.folder / "old.md").rename(library.folder / "archive" / "boiler.md")
    view = await library.scan()
    assert view is not None and view.documents == 1
    assert await library.find("plums") == []
    (hit,) = await library.find("pressure bar")
    assert hit.startswith("archive/boiler.md › Boiler › Pressure\n")
    assert len(await library.find("archive")) == 2 and await library.find("old") == []
    after = await library.rows()
    assert set(after) < set(before) and all(vectors for _, vectors in after)
    queued = await library.room.database.fetchval(
        "SELECT count(*) FROM choir_memory.embedding_queue"
    )
    assert queued == 0
    assert set(await library.files()) == {"archive/boiler.md"}


async def test_a_folder_that_is_away_keeps_its_documents(library: Library, tmp_path: Path) -> None:
    write(library.folder / "manual.md", MANUAL)
    await library.follow()
    await library.scan()
    away = tmp_path / "away"
    library.folder.rename(away)
    view = await library.scan()
    assert view is not None and view.folder is not None
    assert view.folder.state == "unreachable" and "does not exist" in view.folder.problem
    library.folder.mkdir()
    view = await library.scan()
    assert view is not None and view.folder is not None and "mounted" in view.folder.problem
    assert len(await library.find("pressure bar")) == 1
    library.folder.rmdir()
    away.rename(library.folder)
    view = await library.scan()
    assert view is not None and view.folder is not None
    assert (view.folder.state, view.folder.problem) == ("current", "")


async def test_a_file_that_cannot_be_read_says_why_and_loses_its_former_text(
    library: Library,
) -> None:
    write(library.folder / "a.md", "words about cherries")
    write(library.folder / "b.pdf", "no pdf")
    (library.folder / "c.txt").write_text("x" * 2_000_000)
    await library.follow()
    await library.scan()
    (library.folder / "a.md").write_bytes(b"\xfd\xfe now binary \xff")
    view = await library.scan()
    assert view is not None and view.folder is not None
    assert (view.folder.unreadable, view.documents) == (3, 0)
    problems = await library.files()
    assert "not a PDF" in problems["b.pdf"] and "larger than 1 MB" in problems["c.txt"]
    assert problems["a.md"]
    assert await library.find("cherries") == []
    listing = ListDocuments(agent_id="main", collection="house", unreadable=True, limit=2)
    page = await library.service.list_documents(listing)
    assert [document.name for document in page.documents] == ["a.md", "b.pdf"] and page.more
    write(library.folder / "b.pdf", "no pdf")
    documents.write_pdf(library.folder / "b.pdf", "cherries again")
    await library.scan()
    assert len(await library.find("cherries")) == 1


async def test_files_with_keys_are_not_opened_and_key_blocks_are_masked(library: Library) -> None:
    names = (".env", "id_rsa", "server.pem", "prod.key", "deploy/.netrc", "deploy/Credentials.json")
    for name in names:
        write(library.folder / name, "password hunter2secret")
        # nobody can open them
        (library.folder / name).chmod(0)
    write(library.folder / ".env.example", "PASSWORD=")
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2secret\n-----END OPENSSH PRIVATE KEY-----"
    write(library.folder / "notes.md", f"How to connect:\n{key}\nThen call Huber.")
    write(library.folder / "cut.md", "It begins:\n-----BEGIN RSA PRIVATE KEY-----\nhunter2secret")
    await library.follow()
    view = await library.scan()
    assert view is not None and view.folder is not None and view.folder.unreadable == len(names)
    problems = await library.files()
    assert {name for name in names if "file with keys" in problems[name]} == set(names)
    assert set(problems) == {*names, "notes.md", "cut.md"}
    assert await library.find("hunter2secret") == []
    (notes,) = await library.find("connect Huber")
    assert "[redacted]" in notes and "BEGIN" not in notes


async def test_pages_mail_and_downloads_have_the_trust_of_the_web(library: Library) -> None:
    write(library.folder / "own.md", "The zebra stable is green.")
    write(library.folder / "page.html", "<p>The zebra stable is red.")
    write(library.folder / "mail.eml", "The zebra stable is blue.")
    write(library.folder / "loaded.md", "The zebra stable is black.")
    marked = {"loaded.md"}
    try:
        os.setxattr(library.folder / "loaded.md", "user.xdg.origin.url", b"https://example.org")
    except OSError:
        # the file system of this machine has no attributes
        marked = set()
    await library.follow()
    await library.scan()
    hits = (await library.room.ask("zebra stable", mode="text")).hits
    trusts = {hit.text.partition("\n")[0]: (hit.origin, hit.trust) for hit in hits}
    assert trusts["own.md"] == ("operator", 70)
    assert {name for name, trust in trusts.items() if trust == ("web", 10)} == {
        *("page.html", "mail.eml", *marked),
    }
    reminding = ReminderService(
        database=library.room.database,
        spaces=library.room.spaces,
        search=library.room.recall,
        clock=SystemClock(),
    )
    message = ReadReminders(
        agent_id="main",
        session_id="now",
        text="Is the zebra stable green?",
        deadline_ms=9_000,
    )
    reminders = (await reminding.remind(message)).reminders
    named = {reminder.text.partition("\n")[0] for reminder in reminders}
    assert named == {"own.md", *({"loaded.md"} - marked)}


async def test_links_pipes_and_huge_files_are_not_opened(library: Library, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside / "secret.md", "the outside secret")
    write(library.folder / "inner" / "secret.md", "harmless")
    write(library.folder / "swapped.md", "harmless")
    write(library.folder / "own.md", "harmless")
    with (library.folder / "sparse.txt").open("wb") as sparse:
        # it would take an hour to hash
        sparse.truncate(1 << 40)
    await library.follow()
    folder = await library.store.find("main", "house")
    assert folder is not None
    # the list is complete; before the files are opened, others take their places
    await library.scanner.run_turn(folder)
    (library.folder / "inner" / "secret.md").unlink()
    (library.folder / "inner").rmdir()
    (library.folder / "inner").symlink_to(outside)
    (library.folder / "swapped.md").unlink()
    (library.folder / "swapped.md").symlink_to(outside / "secret.md")
    (library.folder / "own.md").unlink()
    os.mkfifo(library.folder / "own.md")
    await library.finish()
    problems = await library.files()
    assert problems["own.md"] == "could not be opened: not a regular file"
    assert "larger than 1 MB" in problems["sparse.txt"]
    assert problems["swapped.md"] and problems["inner/secret.md"]
    assert await library.find("outside secret") == []
    await library.scan()
    assert set(await library.files()) == {"sparse.txt"}
    # the folder itself
    library.folder.rename(tmp_path / "former")
    library.folder.symlink_to(outside)
    view = await library.scan()
    assert view is not None and view.folder is not None
    assert view.folder.state == "unreachable" and "link" in view.folder.problem
    assert await library.find("outside secret") == []


async def test_a_collection_follows_one_folder_or_has_documents(
    library: Library, tmp_path: Path
) -> None:
    write(library.folder / "manual.md", MANUAL)
    document = AddDocument(agent_id="main", collection="house", name="a.md", text="A note.")
    await library.documents.add(document)
    with pytest.raises(Conflict, match="one by one"):
        await library.follow()
    await library.documents.remove(RemoveDocuments(agent_id="main", collection="house"))
    await library.follow()
    await library.scan()
    with pytest.raises(Conflict, match="follows a folder"):
        await library.documents.add(document)
    other = tmp_path / "other"
    write(other / "x.md", "x")
    with pytest.raises(Conflict, match="Use another name"):
        await library.follow(other)
    one = RemoveDocuments(agent_id="main", collection="house", name="manual.md")
    with pytest.raises(Conflict, match="remove the file there"):
        await library.documents.remove(one)
    removed = await library.documents.remove(RemoveDocuments(agent_id="main", collection="house"))
    assert removed.documents == 1
    assert await library.scan() is None
    assert await library.find("pressure") == []


async def test_what_is_private_or_absent_is_not_followed(library: Library, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home / "secrets" / "a.md", "secret")
    write(home / "collections" / "a.md", "no secret")
    for folder in (home, home / "secrets", tmp_path):
        with pytest.raises(InvalidRequest, match="state directory"):
            await library.follow(folder)
    with pytest.raises(InvalidRequest, match="does not exist"):
        await library.follow(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidRequest, match="Put a file into it first"):
        await library.follow(tmp_path / "empty")
    with pytest.raises(InvalidRequest, match="is not a folder"):
        await library.follow(home / "collections" / "a.md")
    (tmp_path / "shortcut").symlink_to(home / "secrets")
    with pytest.raises(InvalidRequest, match="state directory"):
        await library.follow(tmp_path / "shortcut")
    await library.follow(home / "collections")


async def test_new_notes_get_their_vectors_before_a_folder(library: Library) -> None:
    for number in range(40):
        write(library.folder / f"{number}.md", f"page {number}")
    await library.follow()
    await library.scan()
    await library.room.put("A note of the agent.")
    jobs = await library.room.database.fetch(
        "SELECT due_at IS NULL AS urgent, count(*) FROM choir_memory.embedding_queue GROUP BY 1"
    )
    assert {row["urgent"]: row["count"] for row in jobs} == {True: 1, False: 40}


async def test_a_killed_service_goes_on_where_it_was(
    make_memory: MakeMemory, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    for number in range(300):
        write(folder / f"{number:03}.md", f"note {number} about subject{number}")
    memory = make_memory(CHOIR_FOLDER_SCAN_S="1")
    await memory.start()
    client, agent = NatsCollectionsClient(memory.bus), NatsMemoryClient(memory.bus)
    await client.follow(FollowFolder(agent_id="main", collection="many", folder=str(folder)))

    async def view() -> CollectionView:
        (one,) = (await agent.collections(ListCollections(agent_id="main"))).collections
        return one

    async def begun() -> bool:
        return (await view()).documents > 20

    await until(begun)
    await memory.kill()
    await memory.start()
    resumed = await view()
    assert 20 < resumed.documents < 300, "it was killed too late to show anything"

    async def is_current() -> bool:
        folder = (await view()).folder
        return folder is not None and folder.state == "current"

    await until(is_current)
    assert ((await view()).documents, (await view()).chunks) == (300, 300)
    # from here on changes are noticed without a request
    write(folder / "new.md", "a zebra")
    (folder / "000.md").unlink()

    async def is_followed() -> bool:
        names = ListDocuments(agent_id="main", collection="many", limit=1_000)
        listed = {document.name for document in (await client.documents(names)).documents}
        return "new.md" in listed and "000.md" not in listed

    await until(is_followed)
    assert await memory.stop() == 0
