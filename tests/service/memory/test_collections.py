"""Documents that were brought: taken in whole, found, replaced, and erased."""

import asyncio
from pathlib import Path

import pytest

from choir_common.clients.memory import NatsCollectionsClient, NatsMemoryClient
from choir_common.errors import InvalidRequest, NotFound
from choir_common.wire.memory_collections import (
    AddDocument,
    DocumentAdded,
    ListCollections,
    ListDocuments,
    RemoveDocuments,
)
from choir_common.wire.memory_search import MemoryQuery
from choir_memory.collections.service import CollectionService
from tests.service.memory.conftest import Room
from tests.service.memory.folder_services import make_folder_services
from tests.service.memory.servers import MakeMemory

MANUAL = (
    "# Boiler\nRead this.\n## Pressure\nKeep it between 1 and 2 bar.\n## Bleeding\nOpen the valve."
)
TAXES = "# Taxes\nThe return is due on 31 July."


def make(room: Room) -> CollectionService:
    return make_folder_services(room, Path("/nonexistent")).collections


async def add(room: Room, name: str, text: str, collection: str = "house") -> DocumentAdded:
    document = AddDocument(agent_id="main", collection=collection, name=name, text=text)
    return await make(room).add(document)


async def found(room: Room, query: str, **more: object) -> list[str]:
    return [hit.text for hit in (await room.ask(query, mode="text", **more)).hits]


async def test_a_document_is_found_by_its_words_its_name_and_its_headings(room: Room) -> None:
    assert await add(room, "manual.md", MANUAL) == DocumentAdded(operation="added", chunks=3)
    (best, *_) = await found(room, "what pressure in bar", collection="house")
    assert best == "manual.md › Boiler › Pressure\n## Pressure\nKeep it between 1 and 2 bar."
    assert await found(room, "pressure", collection="office") == []
    assert len(await found(room, "manual", kinds=("document_chunk",))) == 3
    queued = "SELECT count(*) FROM choir_memory.embedding_queue"
    assert await room.database.fetchval(queued) == 3


async def test_the_same_again_changes_nothing_and_another_text_replaces_all_of_it(
    room: Room,
) -> None:
    await add(room, "manual.md", MANUAL)
    rows = "SELECT id, chunk_index, text FROM choir_main.knowledge_documents ORDER BY id"
    before = await room.database.fetch(rows)
    assert (await add(room, "manual.md", MANUAL)).operation == "unchanged"
    assert await room.database.fetch(rows) == before
    assert await add(room, "manual.md", TAXES) == DocumentAdded(operation="replaced", chunks=1)
    assert await found(room, "pressure valve boiler") == []
    assert len(await found(room, "taxes july")) == 1
    queued = "SELECT count(*) FROM choir_memory.embedding_queue"
    assert await room.database.fetchval(queued) == 1


async def test_documents_added_at_the_same_time_get_places_of_their_own(room: Room) -> None:
    await asyncio.gather(*(add(room, f"{n}.md", f"{MANUAL} Number {n}.") for n in range(6)))
    rows = await room.database.fetch(
        "SELECT chunk_index FROM choir_main.knowledge_documents ORDER BY chunk_index"
    )
    # a place stays free between two documents
    assert [row["chunk_index"] for row in rows] == [4 * n + k for n in range(6) for k in range(3)]


async def test_what_was_brought_can_be_listed_and_taken_away(room: Room) -> None:
    await add(room, "manual.md", MANUAL)
    await add(room, "copy.md", MANUAL)
    await add(room, "2026.md", TAXES, collection="taxes")
    folders = make(room).folders
    brought = await folders.list_collections(ListCollections(agent_id="main"))
    told = [(one.name, one.documents, one.chunks, one.folder) for one in brought.collections]
    assert told == [("house", 2, 6, None), ("taxes", 1, 1, None)]
    listing = ListDocuments(agent_id="main", collection="house", limit=1)
    page = await folders.list_documents(listing)
    (first,) = page.documents
    assert (first.name, first.chunks, first.characters) == ("copy.md", 3, len(MANUAL)) and page.more
    page = await folders.list_documents(listing.model_copy(update={"after": "copy.md"}))
    assert [one.name for one in page.documents] == ["manual.md"] and not page.more
    one = RemoveDocuments(agent_id="main", collection="house", name="copy.md")
    assert (await make(room).remove(one)).chunks == 3
    whole = RemoveDocuments(agent_id="main", collection="house")
    gone = await make(room).remove(whole)
    assert (gone.documents, gone.chunks) == (1, 3)
    with pytest.raises(NotFound, match="no collection house"):
        await make(room).remove(whole)
    assert await found(room, "pressure") == [] and len(await found(room, "july")) == 1
    audit = await room.database.fetch("SELECT operation FROM choir_memory.audit ORDER BY id")
    assert [row["operation"] for row in audit] == ["add document"] * 3 + ["remove documents"] * 2


async def test_a_document_without_words_is_refused(room: Room) -> None:
    with pytest.raises(InvalidRequest, match="must not be blank"):
        await add(room, "empty.md", " \n ")


async def test_over_the_bus_an_agent_finds_what_was_brought_to_it(make_memory: MakeMemory) -> None:
    memory = make_memory()
    await memory.start()
    brought = NatsCollectionsClient(memory.bus)
    document = AddDocument(agent_id="main", collection="house", name="manual.md", text=MANUAL)
    assert (await brought.add(document)).chunks == 3
    query = MemoryQuery(
        agent_id="main", store="knowledge", query="bleeding", mode="text", context=True
    )
    (hit,) = (await NatsMemoryClient(memory.bus).query(query)).hits
    assert (hit.kind, hit.origin, hit.session_id) == ("document_chunk", "operator", "house")
    assert "Pressure" in hit.before[-1].text
    listed = await brought.documents(ListDocuments(agent_id="main", collection="house"))
    assert [one.name for one in listed.documents] == ["manual.md"]
    asked = RemoveDocuments(agent_id="main", collection="house", name="manual.md")
    assert (await brought.remove(asked)).documents == 1
    with pytest.raises(NotFound):
        await brought.remove(asked)
    with pytest.raises(NotFound):
        await brought.documents(ListDocuments(agent_id="stranger", collection="house"))
    assert await memory.stop() == 0
