"""What an agent remembers of a long talk, and of the day before (spec 11.3, 11.8), on a real stack."""

import asyncio
import json
from pathlib import Path

import orjson

from choir_common.http.transport import make_client
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


def look_back(mode: str, session_id: str | None = None) -> dict[str, object]:
    """Return a call that searches past sessions for what the message says after a colon."""
    more = {"session_id": session_id} if session_id else {}
    arguments = {"store": "session", "mode": mode, "query": "{match.2}", **more}
    return {"call": {"name": "choir.memory.query", "arguments": arguments}}


PAST = {
    "rules": [
        {
            "when": {"lane": "summary", "contains": "kite"},
            "then": [{"say": json.dumps({"summary": "Ada stored a toy.", "topics": []})}],
        },
        {
            "when": {"regex": "(look back): (.+)"},
            "then": [look_back("semantic"), {"say": "Found: {result}"}],
        },
        {
            "when": {"regex": "read (\\S+) for: (.+)"},
            "then": [look_back("session_detail", "{match.1}"), {"say": "Read: {result}"}],
        },
    ],
    "otherwise": [{"say": "Noted."}],
}
KITE = "The blue kite lies in the attic."


def one_session_in_full(home: Path) -> None:
    """Let only the newest session stay in mid-term memory."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "memory": {"mid_term_sessions": 1}}))


async def until_archived(stack: Stack) -> None:
    """Wait until memory has every ended session."""
    async with asyncio.timeout(60), make_client(stack.endpoint) as client:
        while "choir_sessions_to_archive 0.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.1)


async def test_what_was_said_in_past_sessions_is_found_and_read(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    score.write_bytes(orjson.dumps(PAST))
    async with starting_stack(score, prepare=one_session_in_full) as stack:
        async with user_at(stack.url, token=stack.secret("operator-token")) as user:
            await user.asks(KITE)
            first = str((await sessions_of(stack))[0]["session_id"])
            await asyncio.to_thread(stack.run, "agent", "restart", "main")
            await until_archived(stack)
            assert KITE in await user.asks("look back: where is the kite?")
            await asyncio.to_thread(stack.run, "agent", "restart", "main")
            await until_archived(stack)
            # two sessions are over: of the first only the summary is searched, and every word can be read
            assert "Ada stored a toy." in await user.asks("look back: which toy was stored?")
            assert KITE in await user.asks(f"read {first} for: kite")
