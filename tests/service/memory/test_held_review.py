"""What is held becomes a fact if its own session supports it: another message, or the episode."""

import json

import pytest

from choir_common.clock import SystemClock
from choir_common.wire.memory_forget import ForgetMemory, ForgetSelection
from choir_memory.admin.forget import MemoryForgetter
from choir_memory.facts.held_review import HeldFactReview
from choir_memory.schema.lease_store import LeaseStore
from tests.service.memory.conftest import Room
from tests.service.memory.derived import ScriptedModel, answer, propose
from tests.service.memory.test_facts import TEA, known, make, say

AGAIN = ("2026-03-01T09:05", "Ana", "Yes, tea, and it has to be green.")
HELD = answer(propose(explicit=False))


async def begin(room: Room, *, ended: bool = True) -> None:
    """Note a session `s1`, which has ended or still runs."""
    await room.database.execute(
        "INSERT INTO choir_memory.sessions (agent_id, session_id, started_at, ended_at) "
        "VALUES ('main', 's1', now(), CASE WHEN $1 THEN now() END)",
        ended,
    )


async def review(room: Room, *answers: str) -> tuple[int, ScriptedModel]:
    model = ScriptedModel(list(answers))
    leases = LeaseStore(room.database, "r1")
    task = HeldFactReview(database=room.database, leases=leases, model=model)
    return await task.run_agent("main"), model


def support(source: int, quote: str) -> str:
    return json.dumps({"supported": [{"statement": 1, "source": source, "quote": quote}]})


async def fact(room: Room) -> tuple[str, object, int]:
    """Return the fact's status, what promoted it, and its evidence."""
    row = await room.database.fetchrow(
        "SELECT d.status, d.metadata ->> 'promoted_by' AS by, (SELECT count(*) FROM choir_main.links l "
        "WHERE l.from_id = d.id AND l.kind = 'evidence') AS evidence "
        "FROM choir_main.knowledge_documents d WHERE kind = 'fact'"
    )
    assert row is not None
    return row["status"], row["by"], row["evidence"]


async def test_another_message_of_the_session_supports_it(room: Room) -> None:
    await say(room, TEA, AGAIN)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    assert await fact(room) == ("held", None, 1)
    done, model = await review(room, support(2, "it has to be green"))
    assert done == 1 and await fact(room) == ("active", "transcript", 2)
    [(_, material)] = model.asked
    assert "> S1. The user drinks green tea." in material and "> 2. [2026-03-01 09:05]" in material


async def test_the_episode_supports_it(room: Room) -> None:
    await say(room, TEA)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    written = await room.put("Ana told that she drinks green tea alone.")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET kind = 'episode', trust = 50, "
        """metadata = '{"session_id": "s1"}' WHERE id = $1""",
        written.document_id,
    )
    done, _ = await review(room, support(2, "she drinks green tea"))
    assert done == 1 and await fact(room) == ("active", "episode", 1)


async def test_what_another_person_said_in_the_session_supports_nothing(room: Room) -> None:
    await say(room, TEA, AGAIN)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    written = await room.put("Ana told that she drinks green tea alone.")
    readers = [{"conversations": ["console", "tablet"]}, {"conversations": ["phone"]}]
    await room.database.execute(
        "UPDATE choir_memory.spaces SET readers = $1::jsonb", json.dumps(readers)
    )
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET conversations = '{console}' WHERE kind = 'fact'"
    )
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET kind = 'episode', trust = 50, "
        """metadata = '{"session_id": "s1"}', conversations = '{phone}' WHERE id = $1""",
        written.document_id,
    )
    await set_conversations(room, TEA, "console")
    await set_conversations(room, AGAIN, "phone")
    done, model = await review(room)
    assert (done, model.asked) == (1, []) and (await fact(room))[0] == "held"
    # the same words of the same person in another conversation do
    await set_conversations(room, AGAIN, "tablet")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET metadata = metadata - 'reviewed'"
    )
    done, model = await review(room, support(2, "it has to be green"))
    [(_, material)] = model.asked
    assert "alone" not in material and await fact(room) == ("active", "transcript", 2)


async def set_conversations(room: Room, said: tuple[str, str, str], dm: str) -> None:
    """Let a turn belong to a conversation."""
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET conversations = ARRAY[$2] WHERE text = $1",
        said[2],
        dm,
    )


@pytest.mark.parametrize(
    "said",
    [
        support(2, "it has to be black"),  # nobody said it
        support(1, "I only drink green tea"),  # the message that it rests on already
        support(9, "it has to be green"),
        '{"supported": []}',
        "Sure!",
    ],
)
async def test_what_nothing_supports_stays_held_and_is_not_asked_about_again(
    room: Room, said: str
) -> None:
    await say(room, TEA, AGAIN)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    done, model = await review(room, said)
    assert (done, len(model.asked)) == (1, 1) and (await fact(room))[0] == "held"
    done, model = await review(room)
    assert (done, model.asked) == (0, [])
    # another session may still confirm it
    await say(room, TEA, session="s2")
    await make(room, HELD)[0].run_agent("main")
    assert (await fact(room))[0] == "active"


async def test_an_undone_message_supports_nothing(room: Room) -> None:
    _, again = await say(room, TEA, AGAIN)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    selection = ForgetSelection(scope="learned", document=str(again))
    forgetter = MemoryForgetter(room.database, room.spaces, SystemClock())
    shown = await forgetter.forget(ForgetMemory(agent_id="main", selection=selection))
    selection = selection.model_copy(update={"expected_digest": shown.digest})
    await forgetter.forget(ForgetMemory(agent_id="main", selection=selection))
    done, model = await review(room, support(2, "it has to be green"))
    assert (done, model.asked) == (1, []) and (await fact(room))[0] == "held"


async def test_a_held_fact_that_is_over_is_not_reviewed(room: Room) -> None:
    await say(room, TEA, AGAIN)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET valid_to = now() WHERE kind = 'fact'"
    )
    done, model = await review(room, support(2, "it has to be green"))
    assert (done, model.asked) == (0, []) and (await fact(room))[0] == "held"
    # nor is it confirmed by a repetition, which is a fact of its own
    await say(room, AGAIN, session="s2")
    again = propose(explicit=False, quote="it has to be green")
    await make(room, answer(again))[0].run_agent("main")
    assert [(status, seen) for _, status, seen in await known(room)] == [("held", 1)] * 2


async def test_a_message_alone_costs_no_call(room: Room) -> None:
    await say(room, TEA)
    await begin(room)
    await make(room, HELD)[0].run_agent("main")
    done, model = await review(room)
    assert (done, model.asked) == (1, []) and (await fact(room))[0] == "held"


async def test_a_session_that_runs_or_was_not_read_to_its_end_is_not_reviewed(room: Room) -> None:
    await say(room, TEA)
    await begin(room, ended=False)
    await make(room, HELD)[0].run_agent("main")
    await say(room, AGAIN)
    assert (await review(room))[0] == 0
    await room.database.execute("UPDATE choir_memory.sessions SET ended_at = now()")
    done, model = await review(room)
    assert (done, model.asked) == (0, [])
    await make(room, answer())[0].run_agent("main")
    done, _ = await review(room, support(2, "it has to be green"))
    assert done == 1 and (await fact(room))[0] == "active"


async def test_an_implicit_rule_becomes_active_when_it_was_said_in_three_messages_of_a_session(
    room: Room,
) -> None:
    wish = propose(
        kind="rule", object="French", text="Answer in French.", quote="French", explicit=False
    )
    for number in (1, 2, 3):
        await say(room, (f"2026-03-01T09:0{number}", "Ana", "French would have been nicer."))
        await make(room, answer(wish))[0].run_agent("main")
        status = await room.database.fetchval(
            "SELECT status FROM choir_main.knowledge_documents WHERE kind = 'rule'"
        )
        assert status == ("active" if number == 3 else "held")


async def test_messages_of_one_batch_count_each(room: Room) -> None:
    said = [(f"2026-03-01T09:0{number}", "Ana", TEA[2]) for number in (1, 2, 3)]
    await say(room, *said)
    await make(room, answer(*(propose(explicit=False, source=n) for n in (1, 2, 3))))[0].run_agent(
        "main"
    )
    assert await fact(room) == ("active", "repetition", 3)


async def test_parts_of_one_message_count_once(room: Room) -> None:
    said = [(f"2026-03-01T09:0{number}", "Ana", TEA[2]) for number in (1, 2, 3)]
    await say(room, *said)
    await room.database.execute("UPDATE choir_main.memory_documents SET first_rev = 7")
    await make(room, answer(*(propose(explicit=False, source=n) for n in (1, 2, 3))))[0].run_agent(
        "main"
    )
    assert await fact(room) == ("held", None, 3)
