"""How a search answers: context, budget, deadline, paging, receipts."""

import asyncio

import asyncpg
import pytest

from choir_common.wire.memory_search import ReadSearchReceipt
from choir_memory.search import receipt_writer
from choir_memory.search.hit_selection import estimate_tokens
from tests.service.memory.conftest import Room, make_search
from tests.service.memory.lived import remember_session
from tests.service.memory.provider import ScriptedProvider
from tests.service.memory.test_search import embed_all
from tests.support.postgres import PASSWORD

SESSION = {"store": "session"}
DETAIL = {"store": "session", "mode": "session_detail", "session_id": "s"}


async def test_a_hit_is_shown_with_two_before_it_and_one_after(room: Room) -> None:
    await remember_session(room, "s", "mid_term", "a", "b", "c", "walnut", "e", "f")
    await remember_session(room, "t", "mid_term", "other", "things", "here", "and", "there")
    (hit,) = (await room.ask("walnut", mode="text", context=True, **SESSION)).hits
    assert [one.text for one in hit.before] == ["b", "c"]
    assert [one.text for one in hit.after] == ["e"]
    assert [one.position for one in hit.before] == [1, 2]
    bare = (await room.ask("walnut", mode="text", **SESSION)).hits[0]
    assert (bare.before, bare.after) == ((), ())


async def test_what_two_hits_have_in_common_is_told_once(room: Room) -> None:
    await remember_session(room, "s", "mid_term", "a", "walnut", "c", "walnut walnut", "e")
    found = await room.ask("walnut", mode="text", context=True, **SESSION)
    told = [one.text for hit in found.hits for one in (*hit.before, *hit.after)]
    told += [hit.text for hit in found.hits]
    assert sorted(told) == ["a", "c", "e", "walnut", "walnut walnut"]


async def test_context_shows_no_summary_of_the_session_and_nothing_expired(room: Room) -> None:
    await remember_session(room, "s", "long_term_detail", "a", "walnut", "c")
    await remember_session(room, "s", "long_term_summary", "x", "y", "z")
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET expires_at = now() WHERE text = 'c'"
    )
    (hit,) = (await room.ask("walnut", mode="text", context=True, **SESSION)).hits
    assert [one.text for one in (*hit.before, *hit.after)] == ["a"]


async def test_a_budget_takes_as_many_hits_as_it_holds(room: Room) -> None:
    texts = [f"walnut number {number} " + "word " * 30 for number in range(20)]
    for text in texts:
        await room.put(text)
    one = estimate_tokens(texts[10])
    found = await room.ask("walnut", mode="text", budget_tokens=one * 13)
    assert len(found.hits) == 13, "more than the ten of a search without budget"
    assert found.tokens <= one * 13


async def test_the_first_hit_is_cut_when_it_alone_is_too_long(room: Room) -> None:
    await room.put("walnut " * 500)
    found = await room.ask("walnut", mode="text", budget_tokens=100)
    assert found.hits[0].truncated
    assert found.hits[0].text.endswith("…")
    assert found.tokens <= 100


async def test_session_detail_goes_on_where_it_ended(room: Room) -> None:
    texts = [f"turn {number}" for number in range(7)]
    await remember_session(room, "s", "long_term_detail", *texts)
    read: list[str] = []
    after = None
    while True:
        page = await room.ask("", **DETAIL, limit=3, after=after)
        read += [hit.text for hit in page.hits]
        after = page.more_after
        if after is None:
            break
    assert read == texts


async def test_session_detail_keeps_its_order_within_a_budget(room: Room) -> None:
    await remember_session(room, "s", "mid_term", "short", "long " * 100, "short again")
    page = await room.ask("", **DETAIL, budget_tokens=60)
    assert [hit.text for hit in page.hits] == ["short"]
    rest = await room.ask("", **DETAIL, after=page.more_after)
    assert [hit.text for hit in rest.hits][1:] == ["short again"]


async def test_a_slow_embedder_is_cut_and_named(room: Room, provider: ScriptedProvider) -> None:
    await room.put("walnut")
    provider.mood = "slow"
    found = await room.ask("walnut", deadline_ms=100)
    assert found.cut == ("vector",)
    assert found.arms_used == ("text",)
    assert found.degraded
    assert [hit.text for hit in found.hits] == ["walnut"]


async def test_a_vector_arm_that_takes_too_long_is_cut_and_named(room: Room) -> None:
    await room.put("walnut")
    await embed_all(room)
    await room.ask("walnut")  # how large the space is, is known from now on
    blocker = await asyncpg.connect(room.dsn, password=PASSWORD)
    try:
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE choir_main.knowledge_embeddings")
            found = await room.ask("walnut", deadline_ms=300)
    finally:
        await blocker.close()
    assert found.cut == ("vector",)
    assert [hit.text for hit in found.hits] == ["walnut"]
    assert (await room.ask("walnut")).cut == (), "the connection is as good as before"


async def test_a_receipt_says_what_was_done_and_holds_no_words(room: Room) -> None:
    await room.put("walnut pie")
    await embed_all(room)
    found = await room.ask("walnut cake", explain=True, kinds=("note",), min_trust=1)
    kept = await room.recall.receipt(
        ReadSearchReceipt(agent_id="main", receipt_id=found.receipt_id)
    )
    assert kept.receipt == found.receipt
    assert kept.receipt["filters"] == ["kinds", "min_trust"]
    assert set(kept.receipt["arms"]) == {"text", "vector"}
    (hit,) = kept.receipt["hits"]
    assert hit["id"] == found.hits[0].document_id
    assert {"text", "vector"} <= set(hit["arms"])
    assert {"embedding", "find", "weigh", "read", "total"} <= set(kept.receipt["took_ms"])
    row = "SELECT receipt::text FROM choir_memory.receipts"
    assert not {"walnut", "pie", "cake"} & set((await room.database.fetchval(row)).split('"'))
    assert (await room.ask("walnut")).receipt is None


async def test_a_search_does_not_wait_for_its_receipt(room: Room) -> None:
    await room.put("walnut")
    blocker = await asyncpg.connect(room.dsn, password=PASSWORD)
    try:
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE choir_memory.receipts")
            async with asyncio.timeout(5):
                found = await room.ask("walnut", mode="text")
            assert found.receipt_id and found.hits and found.cut == ()
    finally:
        await blocker.close()
    kept = await room.recall.receipt(
        ReadSearchReceipt(agent_id="main", receipt_id=found.receipt_id)
    )
    assert kept.receipt["mode"] == "text"


async def test_a_search_answers_although_too_many_receipts_wait(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.put("walnut")
    monkeypatch.setattr(receipt_writer, "MAX_PENDING", 0)
    found = await room.ask("walnut", mode="text")
    assert (found.receipt_id, found.cut) == (None, ("receipt",))
    assert found.hits


async def test_the_receipt_of_another_replica_is_read_when_it_is_stored(room: Room) -> None:
    await room.put("walnut")
    found = await room.ask("walnut", mode="text")
    assert found.receipt_id
    other = make_search(room.database, room.spaces, room.embedders)
    kept = await other.receipt(ReadSearchReceipt(agent_id="main", receipt_id=found.receipt_id))
    assert kept.receipt_id == found.receipt_id


async def test_arms_can_be_asked_for_alone(room: Room) -> None:
    await room.put("walnut")
    await embed_all(room)
    for arm in ("text", "vector"):
        found = await room.ask("walnut", arms=(arm,))
        assert found.arms_used == (arm,)
        assert found.hits
