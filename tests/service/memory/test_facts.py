"""Facts and rules learned from what was said: what is kept, counted, replaced, and when nothing is."""

import json
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from choir_common.errors import Unavailable
from choir_memory.documents.erase_store import erase_documents
from choir_memory.embedding.embedder import QueryVector
from choir_memory.facts.extraction import MAX_RULES, ExtractionTask
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.store import agent_transaction
from tests.service.memory.conftest import Room
from tests.service.memory.derived import ScriptedModel, answer, live_turns, propose
from tests.service.memory.operators import make_operator
from tests.service.memory.test_search import embed_all

TEA = ("2026-03-01T09:00", "Ana", "I only drink green tea.")
COFFEE = ("2026-05-01T09:00", "Ana", "I drink coffee now, no more tea.")
NOW_COFFEE = {
    "object": "coffee",
    "text": "The user drinks coffee.",
    "quote": "I drink coffee now",
}
SUPERSEDE = json.dumps({"decisions": [{"case": 1, "decision": "supersede"}]})


async def say(room: Room, *said: tuple[str, str, str], **more: str) -> list[UUID]:
    """Store turns as if they had been archived a while ago."""
    await room.spaces.ensure("main")
    trust = 10 if more.get("origin") == "web" else 70
    ids = await live_turns(room.database, said, trust=trust, **more)
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET created_at = created_at - interval '5 minutes'"
        " WHERE created_at > clock_timestamp() - interval '1 minute'"
    )
    return ids


def make(room: Room, *answers: str | Unavailable) -> tuple[ExtractionTask, ScriptedModel]:
    model = ScriptedModel(list(answers))
    return make_extraction(room, model, UnavailableEmbedders()), model


def make_extraction(room: Room, model: ScriptedModel, embedders: Any) -> ExtractionTask:
    return ExtractionTask(
        database=room.database,
        leases=LeaseStore(room.database, "r1"),
        model=model,
        embedders=embedders,
        queue=room.queue,
    )


class UnavailableEmbedders:
    """The registry while no embedder answers."""

    async def embed_query(self, text: str) -> QueryVector:
        raise Unavailable("no embedder")


async def known(room: Room) -> list[tuple[str, str, int]]:
    rows = await room.database.fetch(
        "SELECT text, status, seen_count FROM choir_main.knowledge_documents"
        " WHERE kind <> 'entity' ORDER BY created_at, id"
    )
    return [(row["text"], row["status"], row["seen_count"]) for row in rows]


async def test_a_fact_is_kept_with_the_words_it_rests_on(room: Room) -> None:
    (turn,) = await say(room, TEA)
    extraction, model = make(room, answer(propose()))
    assert await extraction.run_agent("main") == 1
    fact = "SELECT * FROM choir_main.knowledge_documents WHERE kind = 'fact'"
    row = await room.database.fetchrow(fact)
    assert row is not None
    assert (row["kind"], row["subject"], row["predicate"], row["object"]) == (
        *("fact", "user", "drinks"),
        "green tea",
    )
    assert (row["evidence"], row["origin"], row["trust"]) == (
        "I only drink green tea",
        "derived",
        70,
    )
    assert row["valid_from"] == datetime.fromisoformat("2026-03-01T09:00+00:00")
    links = await room.database.fetch("SELECT kind, to_id FROM choir_main.links ORDER BY kind")
    assert [link["kind"] for link in links] == ["evidence", "mentions"]
    assert links[0]["to_id"] == turn
    # what was read is not read again
    assert await extraction.run_agent("main") == 0 and len(model.asked) == 1


async def test_what_is_said_again_is_counted_and_not_kept_twice(room: Room) -> None:
    await say(room, TEA)
    await say(room, TEA, session="s2")
    worded = propose(predicate="likes to drink", text="The user drinks green tea")
    extraction, _ = make(room, answer(propose()), answer(worded))
    assert await extraction.run_agent("main") == 2
    assert await known(room) == [("The user drinks green tea.", "active", 2)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The user drinks green tea.", [("The user drinks green tea.", "active", 2)]),
        (
            "Ana has a dog called Rex.",
            [
                ("The user drinks green tea.", "active", 1),
                ("Ana has a dog called Rex.", "active", 1),
            ],
        ),
    ],
)
async def test_what_means_the_same_of_another_subject_is_known_by_its_vector(
    room: Room, text: str, kept: list[tuple[str, str, int]]
) -> None:
    await say(room, TEA)
    await make(room, answer(propose()))[0].run_agent("main")
    await embed_all(room)
    await say(room, TEA, session="s2")
    # nothing is known of `Ana`: only the meaning can tell that it is the same
    model = ScriptedModel([answer(propose(subject="Ana", object="tea", text=text))])
    await make_extraction(room, model, room.embedders).run_agent("main")
    assert await known(room) == kept


async def test_what_is_only_concluded_is_held_until_another_session_says_it(room: Room) -> None:
    await say(room, TEA)
    guess = answer(propose(explicit=False))
    await make(room, guess)[0].run_agent("main")
    assert await known(room) == [("The user drinks green tea.", "held", 1)]
    await say(room, TEA)
    await make(room, guess)[0].run_agent("main")
    assert await known(room) == [("The user drinks green tea.", "held", 2)]
    await say(room, TEA, session="s2")
    await make(room, guess)[0].run_agent("main")
    assert await known(room) == [("The user drinks green tea.", "active", 3)]


@pytest.mark.parametrize(("said", "status"), [(SUPERSEDE, "retired"), ("well", "active")])
async def test_a_fact_that_is_no_longer_true_is_closed_if_the_model_says_so(
    room: Room, said: str, status: str
) -> None:
    await say(room, TEA)
    await make(room, answer(propose()))[0].run_agent("main")
    await say(room, COFFEE, session="s2")
    extraction, model = make(room, answer(propose(**NOW_COFFEE)), said)
    await extraction.run_agent("main")
    assert "older: The user drinks green tea. | newer: The user drinks coffee." in model.asked[1][1]
    assert {text: state for text, state, _ in await known(room)} == {
        "The user drinks green tea.": status,
        "The user drinks coffee.": "active",
    }
    closed = "SELECT valid_to FROM choir_main.knowledge_documents WHERE object = 'green tea'"
    until = datetime.fromisoformat("2026-05-01T09:00+00:00") if status == "retired" else None
    assert await room.database.fetchval(closed) == until
    count = "SELECT count(*) FROM choir_main.links WHERE kind = 'supersedes'"
    assert await room.database.fetchval(count) == (1 if status == "retired" else 0)


async def test_an_answer_that_does_not_fit_is_sent_back_once(room: Room) -> None:
    await say(room, TEA)
    extraction, model = make(room, "Here you are!", answer(propose()))
    assert await extraction.run_agent("main") == 1
    assert "was invalid" in model.asked[1][0]
    assert len(await known(room)) == 1
    await say(room, COFFEE, session="s2")
    extraction, model = make(room, "Here you are!", "And again!")
    assert await extraction.run_agent("main") == 1
    assert len(model.asked) == 2 and len(await known(room)) == 1


async def test_a_model_that_is_away_costs_nothing_but_time(room: Room) -> None:
    await say(room, TEA)
    extraction, _ = make(room, Unavailable("away"), answer(propose()))
    with pytest.raises(Unavailable):
        await extraction.run_agent("main")
    assert await known(room) == []
    assert await extraction.run_agent("main") == 1
    assert len(await known(room)) == 1


async def test_nothing_is_learned_from_tools_pages_or_what_repeats_them(room: Room) -> None:
    await say(room, TEA, kind="tools", origin="tool")
    await say(room, TEA, session="s2", origin="web")
    extraction, model = make(room)
    assert await extraction.run_agent("main") == 0
    assert model.asked == []


async def test_erasing_what_was_said_erases_what_was_learned_from_it(room: Room) -> None:
    (turn,) = await say(room, TEA)
    await make(room, answer(propose()))[0].run_agent("main")
    async with agent_transaction(room.database, "main") as held:
        await erase_documents(held, "main", [turn])
    assert await known(room) == []


async def test_what_is_erased_while_the_model_thinks_is_not_learned(room: Room) -> None:
    await say(room, TEA)

    class Eraser(ScriptedModel):
        async def answer(self, instructions: str, material: str) -> str:
            await room.database.execute("DELETE FROM choir_main.memory_documents")
            return await super().answer(instructions, material)

    model = Eraser([answer(propose())])
    await make_extraction(room, model, UnavailableEmbedders()).run_agent("main")
    assert await known(room) == []


async def test_rules_are_capped_and_the_rest_retired_not_deleted(room: Room) -> None:
    count = MAX_RULES + 3
    rules = [f"Rule number {n} is about topic{n}." for n in range(count)]
    for number in range(0, count, 25):
        part = rules[number : number + 25]
        at = "2026-03-01T09:00"
        await say(room, *[(at, "Ana", rule) for rule in part], session=f"s{number}")
    answers = [
        answer(
            *(
                propose(kind="rule", object=rule, text=rule, quote=rule, source=place)
                for place, rule in enumerate(rules[number : number + 25], 1)
            )
        )
        for number in range(0, count, 25)
    ]
    # from the second batch on the model is also asked which rules replace which
    extraction, _ = make(room, answers[0], answers[1], "{}", answers[2], "{}")
    await extraction.run_agent("main")
    states = [status for _, status, _ in await known(room)]
    assert (states.count("active"), states.count("retired")) == (MAX_RULES, 3)


async def test_an_import_goes_on_reading_behind_the_last_turn_that_was_read(room: Room) -> None:
    await say(room, TEA)
    extraction, _ = make(room, answer(propose()))
    assert await extraction.run_agent("main") == 1
    await say(room, COFFEE, session="ses_2")
    operator = make_operator(room)
    exported = await operator.export()
    done = await operator.import_records(exported, "twin", size=1)
    assert sum(one.written for one in done) == len(exported)
    again = await operator.import_records(exported, "twin")
    assert [(one.written, one.unchanged) for one in again] == [(0, len(exported))]
    assert await operator.export("twin") == exported
    reading, model = make(room, answer())
    assert await reading.run_agent("twin") == 1
    (asked,) = model.asked
    assert COFFEE[2] in str(asked) and TEA[2] not in str(asked)
    # what was read here stays read
    await operator.import_records(exported, "twin")
    assert await reading.run_agent("twin") == 0


async def test_an_export_of_an_older_version_is_read_from_its_beginning(room: Room) -> None:
    await say(room, TEA)
    extraction, _ = make(room, answer(propose()))
    await extraction.run_agent("main")
    operator = make_operator(room)
    exported = await operator.export()
    old = [one for one in exported if one.type != "extraction_cursor"]
    assert len(old) == len(exported) - 1
    await operator.import_records(old, "twin")
    reading, model = make(room, answer())
    assert await reading.run_agent("twin") == 1
    assert TEA[2] in str(model.asked)
