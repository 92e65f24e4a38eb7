"""What a user said in one session the agent has in mind in the next, unasked, on a real stack."""

import asyncio
import json
from pathlib import Path

import orjson
import pytest

from choir_common.wire.events import RemindersAdded, parse_payload
from tests.journey.test_memory import FOLDED, small_window, until_archived
from tests.support.stack import console_user, read_log, running_stack_in_thread, sessions_of

KITE = "The blue kite lies in the attic."
SCORE = {
    "rules": [
        {
            "when": {"lane": "summary"},
            "then": [{"say": json.dumps({"summary": "Ada talked.", "topics": []})}],
        },
        {"when": {"lane": "compaction"}, "then": [{"say": json.dumps(FOLDED)}]},
        {
            "when": {"contains": "where is my kite", "system_contains": f"user: {KITE}"},
            "then": [{"say": "In the attic, as you said."}],
        },
        {"when": {"contains": "where is my kite"}, "then": [{"say": "I do not know."}]},
    ],
    "otherwise": [{"say": "Noted."}],
}


@pytest.mark.nightly  # tests/service/memory/test_reminders.py brings up, test_personal_agent.py uses it
async def test_the_next_session_knows_what_was_said_without_being_told_to_look(
    tmp_path: Path,
) -> None:
    score = tmp_path / "score.json"
    score.write_bytes(orjson.dumps(SCORE))
    async with running_stack_in_thread(score, prepare=small_window) as stack:
        async with console_user(stack.url, token=stack.secret("operator-token")) as user:
            assert await user.asks(KITE) == "Noted."
            for number in range(12):
                # until it has rolled off: what the prompt still shows is not brought up once more
                await user.asks(f"message {number}")
            first = str((await sessions_of(stack))[0]["session_id"])
            await asyncio.to_thread(stack.run, "agent", "restart", "main")
            await until_archived(stack)
            assert await user.asks("Where is my kite?") == "In the attic, as you said."
            # nothing is brought up that has nothing to do with it
            assert await user.asks("Please count to a hundred in steps of seven.") == "Noted."
        sessions = {str(one["session_id"]) for one in await sessions_of(stack)}
        (second,) = sessions - {first}
        told = [parse_payload(event) for event in await read_log(stack, second)]
    reminded = [payload for payload in told if isinstance(payload, RemindersAdded)]
    # a neighbour of what was found may come behind it, because answers stand beside questions
    assert [each.reminders[0].text for each in reminded] == [KITE]
    assert {one.session_id for one in reminded[0].reminders} == {first}
