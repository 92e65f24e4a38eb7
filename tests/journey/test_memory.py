"""What an agent remembers of a long talk, and of the day before (spec 11.3, 11.8), on a real stack."""

import json
from pathlib import Path

import orjson

from choir_common.wire.events import (
    EventPayload,
    MemoryCompacted,
    SessionStarted,
    SessionStopped,
    payload_of,
)
from tests.support.replay import check_replay
from tests.support.stack import Stack, read_log, sessions_of, starting_stack, user_at

YESTERDAY = {"summary": "Ada planned the blue house.", "topics": []}
FOLDED = {"memory_delta": {"summary_update": "She likes tea."}}
SCORE = {
    "rules": [
        {"when": {"lane": "summary"}, "then": [{"say": json.dumps(YESTERDAY)}]},
        {"when": {"lane": "compaction"}, "then": [{"say": json.dumps(FOLDED)}]},
        {"when": {"system_contains": "blue house"}, "then": [{"say": "You planned a blue house."}]},
        {"when": {"system_contains": "likes tea"}, "then": [{"say": "You like tea."}]},
    ],
    "otherwise": [{"say": "Noted."}],
}


def small_window(home: Path) -> None:
    """Let the starter config fold after a few turns."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "event_window": 8}))


async def payloads(stack: Stack, session_id: str) -> list[EventPayload]:
    return [payload_of(event) for event in await read_log(stack, session_id)]


async def test_a_long_talk_is_summed_up_and_the_next_session_begins_with_yesterday(
    tmp_path: Path,
) -> None:
    score = tmp_path / "score.json"
    score.write_bytes(orjson.dumps(SCORE))
    async with starting_stack(score, prepare=small_window) as stack:
        async with user_at(stack.url, token=stack.secret("operator-token")) as user:
            answers = [await user.asks(f"message {number}") for number in range(12)]
            assert answers[0] == "Noted." and answers[-1] == "You like tea."
            stack.run("agent", "stop", "main")
            stack.run("agent", "start", "main")
            assert await user.asks("what did we do yesterday?") == "You planned a blue house."
        by_start = sorted(await sessions_of(stack), key=lambda found: str(found["session_id"]))
        first, second = [await payloads(stack, str(s["session_id"])) for s in by_start]
        if not any(isinstance(p, SessionStopped) for p in first):
            first, second = second, first
        check_replay(await read_log(stack, str(by_start[0]["session_id"])))
    assert any(isinstance(p, MemoryCompacted) and p.through_rev for p in first)
    assert isinstance(first[-1], SessionStopped) and first[-1].summary == YESTERDAY["summary"]
    assert isinstance(second[0], SessionStarted)
    assert second[0].seed[0].summary.summary == YESTERDAY["summary"]
