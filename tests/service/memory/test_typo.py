"""Misspelt words of a query, and the vocabulary that they are compared with."""

from choir_memory.documents.erase_store import erase_documents
from choir_memory.schema.store import agent_transaction
from choir_memory.search.corpus_store import LARGE_SPACE_DOCUMENTS
from tests.service.memory.conftest import Room
from tests.service.memory.grown import grow
from tests.service.memory.lived import remember


async def vocabulary(room: Room) -> set[str]:
    return {row["word"] for row in await room.database.fetch("SELECT word FROM choir_main.words")}


async def test_a_misspelt_word_finds_the_similar_one_and_the_answer_names_both(room: Room) -> None:
    await room.put("She bought a piano in spring.")
    await room.put("The violin is old.")
    found = await room.ask("paino", explain=True)
    (hit, *_) = found.hits
    assert hit.text.startswith("She bought")
    assert found.similar_words == {"paino": ("piano",)}
    assert "typo" in found.arms_used
    assert {arm.arm: arm.rank for arm in hit.arms}["typo"] == 1
    assert found.receipt is not None
    assert found.receipt["misspelt"] == 1
    assert found.receipt["arms"]["typo"] == {"found": 1}
    assert "piano" not in str(found.receipt), "receipts contain no text"


async def test_a_word_that_is_known_is_not_corrected(room: Room) -> None:
    await room.put("The pianos are old.")
    await room.put("Pieno is an Italian word.")
    found = await room.ask("pieno", mode="text")
    assert [hit.text for hit in found.hits] == ["Pieno is an Italian word."]
    assert found.similar_words == {} and "typo" not in found.arms_used


async def test_a_word_known_in_the_other_store_is_not_misspelt(room: Room) -> None:
    await room.put("The piano is old.")
    await remember(room, "s", 0, "Pieno means full.")
    assert (await room.ask("pieno", mode="text")).hits == ()


async def test_the_exact_word_ranks_above_a_similar_one(room: Room) -> None:
    await room.put("A harbour with a light.")
    await room.put("A piano by the window.")
    found = await room.ask("harbour paino", mode="text")
    assert [hit.text.split()[1] for hit in found.hits] == ["harbour", "piano"]


async def test_without_the_arm_nothing_is_corrected(room: Room) -> None:
    await room.put("She bought a piano.")
    found = await room.ask("paino", mode="text", arms=("text", "vector"))
    assert found.hits == () and found.similar_words == {}


async def test_words_outside_the_filters_are_neither_found_nor_named(room: Room) -> None:
    await remember(room, "secret", 0, "She bought a piano.")
    await remember(room, "open", 0, "The violin is old.")
    found = await room.ask("paino", store="session", session_id="open")
    assert found.similar_words == {}


async def test_a_large_space_corrects_words_too(room: Room) -> None:
    await grow(room, LARGE_SPACE_DOCUMENTS + 1_000)
    await remember(room, "s", 0, "A zeppelin over the lake.")
    await room.database.execute("ANALYZE choir_main.memory_documents")
    found = await room.ask("zepelin", store="session")
    assert found.similar_words == {"zepelin": ("zeppelin",)}
    assert found.hits[0].text == "A zeppelin over the lake."


async def test_the_vocabulary_has_long_latin_words_of_both_stores(room: Room) -> None:
    await room.put("Harbour in 2024: 東京タワー, gpt4, zoo")
    await remember(room, "s", 0, "Zanzibar")
    assert await vocabulary(room) == {"harbour", "zanzibar"}


async def test_erasing_the_last_document_with_a_word_erases_the_word(room: Room) -> None:
    first = await room.put("trip zanzibar")
    await room.put("trip")
    turn = await remember(room, "s", 0, "zanzibar harbour")
    assert await vocabulary(room) == {"trip", "zanzibar", "harbour"}
    await room.put(None, operation="delete", document_id=first.document_id)
    assert await vocabulary(room) == {"trip", "zanzibar", "harbour"}, "a turn has it, too"
    async with agent_transaction(room.database, "main") as connection:
        await erase_documents(connection, "main", [turn])
    assert await vocabulary(room) == {"trip"}


async def test_a_new_text_replaces_the_words_of_the_old_one(room: Room) -> None:
    await room.put("zanzibar", key="place")
    await room.put("madagascar", key="place", operation="update")
    assert await vocabulary(room) == {"madagascar"}
