"""Searching: arms, fusion, stores, tiers, and other agents' memory."""

from datetime import timedelta

import pytest

from choir_common.errors import InvalidRequest, NotFound
from choir_memory.schema.store import agent_transaction
from choir_memory.search.candidates import ARM_LIMIT
from choir_memory.search.corpus_store import CorpusStatistics
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.vector_arm_store import search_vectors
from tests.service.memory.conftest import Room
from tests.service.memory.lived import MORNING, remember, remember_session
from tests.service.memory.provider import ScriptedProvider


async def embed_all(room: Room) -> None:
    """Run the queue's own step until nothing is due."""
    while await room.queue.embed_batch():
        pass
    assert await room.queue.count_jobs() == (0, 0)


async def test_a_semantic_query_fuses_both_arms_and_shows_what_each_thought(room: Room) -> None:
    await room.put("the boat leaves the harbour at noon")
    await room.put("a recipe for lentil soup")
    await embed_all(room)
    found = await room.ask("harbour boat")
    assert found.arms_used == ("text", "vector")
    assert found.degraded is None
    best = found.hits[0]
    assert best.text.startswith("the boat")
    assert {arm.arm: arm.rank for arm in best.arms} == {"text": 1, "vector": 1}
    assert 0 < best.score <= 1.5


async def test_rare_words_weigh_more_than_common_ones(room: Room) -> None:
    for number in range(20):
        await room.put(f"meeting notes about the project, part {number}")
    await room.put("the zeppelin")
    found = await room.ask("notes about the zeppelin project meeting", mode="text")
    assert found.hits[0].text == "the zeppelin"


async def test_endings_accents_and_case_do_not_matter(room: Room) -> None:
    await room.put("Painting CAFÉS was her hobby")
    for query in ("cafe", "paints", "painted a café"):
        assert (await room.ask(query, mode="text")).hits, query


async def test_chinese_and_japanese_are_found_by_pairs_and_single_characters(room: Room) -> None:
    await room.put("我的貓喜歡在窗邊睡覺")
    await room.put("東京タワーの近くで会いましょう")
    for query, start in (("貓", "我"), ("窗邊", "我"), ("東京タワー", "東")):
        hits = (await room.ask(query, mode="text")).hits
        assert hits, query
        assert hits[0].text.startswith(start)


async def test_a_query_of_signs_alone_finds_nothing_and_breaks_nothing(room: Room) -> None:
    await room.put("something")
    for query in ("!!! ???", "' OR 1=1 --", "a & b | !c <-> :*", "\\", "''"):
        await room.ask(query, mode="text")
    assert not (await room.ask("!!! ???", mode="text")).hits


async def test_the_limit_is_kept(room: Room) -> None:
    for number in range(7):
        await room.put(f"note {number}")
    assert len((await room.ask("note", mode="text", limit=3)).hits) == 3


async def test_the_same_text_is_one_hit_the_newest_and_says_how_often(room: Room) -> None:
    for day in range(30):
        at = MORNING + timedelta(days=day)
        await remember(room, f"s{day}", 0, "The walnut is ripe.", speaker="Ann", happened_at=at)
    await remember(room, "t", 0, "A walnut fell.", speaker="Ann")
    await remember(room, "u", 0, "The walnut is ripe.", speaker="Bob")
    found = await room.ask("walnut ripe", store="session", mode="text", limit=3)
    shown = {(hit.session_id, hit.speaker): hit.times for hit in found.hits}
    assert shown == {("s29", "Ann"): 30, ("u", "Bob"): 1, ("t", "Ann"): 1}
    assert [hit.score for hit in found.hits] == sorted((h.score for h in found.hits), reverse=True)
    detail = {"store": "session", "mode": "session_detail", "session_id": "s3"}
    assert len((await room.ask("walnut", **detail)).hits) == 1


async def test_another_agents_knowledge_is_read_only_when_asked_for(room: Room) -> None:
    await room.put("the vault code is 4711", agent_id="other")
    await room.put("nothing here")
    assert not (await room.ask("vault code", mode="text")).hits
    found = await room.ask("vault code", mode="text", target_agent="other")
    assert [hit.text for hit in found.hits] == ["the vault code is 4711"]


async def test_an_agent_without_memory_is_not_found_and_not_made(room: Room) -> None:
    with pytest.raises(NotFound, match="nobody"):
        await room.ask("x", target_agent="nobody")
    sql = "SELECT count(*) FROM pg_namespace WHERE nspname = 'choir_nobody'"
    assert await room.database.fetchval(sql) == 0


async def test_session_search_reads_recent_turns_summaries_and_the_turns_of_old_sessions(
    room: Room,
) -> None:
    await remember_session(room, "s1", "mid_term", "we planned the garden")
    await remember_session(room, "s2", "long_term_summary", "summary: garden was planted")
    await remember_session(room, "s2", "long_term_detail", "garden detail: tulips", "roses")
    found = await room.ask("garden", store="session", mode="text")
    assert {hit.tier for hit in found.hits} == {
        "mid_term",
        "long_term_summary",
        "long_term_detail",
    }
    one = await room.ask("garden", store="session", mode="text", session_id="s1")
    assert [hit.session_id for hit in one.hits] == ["s1"]


async def test_a_summary_is_no_neighbour_of_the_turn_at_its_position(room: Room) -> None:
    await remember_session(room, "s", "long_term_detail", "where is the violin?", "in the attic")
    await remember_session(room, "s", "long_term_summary", "of music", "of houses")
    await embed_all(room)
    found = await room.ask("violin", store="session")
    parts = {hit.text: {arm.arm: arm.part for arm in hit.arms} for hit in found.hits}
    assert parts["in the attic"]["text"] > 0
    assert parts["of houses"].get("text", 0) == parts["of music"].get("text", 0) == 0


async def test_session_detail_searches_one_session_or_reads_it_in_order(room: Room) -> None:
    await remember_session(room, "s2", "long_term_detail", "first tulips", "then roses", "then ivy")
    await remember_session(room, "s3", "long_term_detail", "other roses")
    detail = {"store": "session", "mode": "session_detail", "session_id": "s2"}
    assert [h.text for h in (await room.ask("roses", **detail)).hits] == ["then roses"]
    everything = await room.ask("", **detail)
    assert [h.text for h in everything.hits] == ["first tulips", "then roses", "then ivy"]


@pytest.mark.parametrize(
    "more",
    [
        {"query": "  "},
        {"query": "x", "mode": "session_detail"},
        {"query": "x", "mode": "session_detail", "store": "session"},
        {"query": "x", "session_id": "s"},
        {"query": "a\x00b"},
        {"query": "x", "target_agent": "memory"},
    ],
)
async def test_a_query_that_does_not_fit_is_refused(room: Room, more: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        await room.ask(**{"query": "", **more})


async def test_a_long_document_is_found_by_a_passage_far_inside_it(room: Room) -> None:
    filler = "Ordinary words fill this page. " * 80
    await room.put(f"{filler}quokka wombat quokka wombat. {filler}")
    await room.put("ordinary page")
    await embed_all(room)
    parts = "SELECT count(*) FROM choir_main.knowledge_embeddings"
    assert await room.database.fetchval(parts) > 3
    found = await room.ask("quokka wombat")
    assert found.hits[0].text.startswith("Ordinary words")
    assert len(found.hits) == len({hit.document_id for hit in found.hits})


async def test_what_only_full_text_found_is_weighed_by_its_vector_too(room: Room) -> None:
    for number in range(ARM_LIMIT + 5):
        await room.put(f"alpha {number}")
    far = await room.put("omega beta beta beta beta beta beta")
    await embed_all(room)
    asked = await room.embedders.embed_query("alpha")
    async with agent_transaction(room.database, "main") as held:
        near = await search_vectors(
            held, SearchScope("main", "knowledge"), CorpusStatistics(0), asked
        )
    assert len(near.hits) == ARM_LIMIT
    assert far.document_id not in {str(one.document_id) for one in near.hits}
    assert 0 < near.mean < 1
    assert near.deviation > 0
    found = next(
        h for h in (await room.ask("alpha omega")).hits if h.document_id == far.document_id
    )
    thought = {arm.arm: arm for arm in found.arms}["vector"]
    assert thought.rank == 0, "the vector arm did not name it"
    assert thought.score > 0


async def test_what_stands_beside_a_word_is_found_by_meaning_and_not_by_words(room: Room) -> None:
    await remember_session(room, "s", "mid_term", "where is the violin?", "in the attic", "good")
    await embed_all(room)
    found = await room.ask("violin", store="session")
    beside = next(hit for hit in found.hits if hit.text == "in the attic")
    assert {arm.arm: arm.part for arm in beside.arms}["text"] > 0
    assert len((await room.ask("violin", store="session", mode="text")).hits) == 1


async def test_a_query_vector_is_made_while_text_is_searched_and_used_again(
    room: Room, provider: ScriptedProvider
) -> None:
    await room.put("alpha beta gamma")
    await embed_all(room)
    asked = len(provider.batches)
    for _ in range(3):
        assert (await room.ask("gamma")).arms_used == ("text", "vector")
    assert len(provider.batches) == asked + 1
