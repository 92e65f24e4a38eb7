"""What an agent remembers of a long talk, and of the day before, on a real stack."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsSessionMemoryClient
from choir_common.http.client import make_client
from choir_common.wire.config import MemoryConfig
from choir_common.wire.events import (
    CarriedEvent,
    EventPayload,
    MemoryCompacted,
    SessionStarted,
    SessionStopped,
    parse_payload,
)
from tests.support.connection_watch import ConnectionWatch, files_below, watching_connections
from tests.support.replay import assert_replay_is_deterministic
from tests.support.sessions import conversation_log
from tests.support.stack import (
    EmbeddedStack,
    console_user,
    read_log,
    running_stack,
    running_stack_in_thread,
    sessions_of,
)

YESTERDAY = {"summary": "Ada planned the blue house.", "topics": []}
FOLDED = {"memory_delta": {"summary_update": "She likes tea."}}
SCORE = {
    "rules": [
        {"when": {"lane": "summary"}, "then": [{"say": json.dumps(YESTERDAY)}]},
        {"when": {"lane": "compaction"}, "then": [{"say": json.dumps(FOLDED)}]},
        {"when": {"system_contains": "likes tea"}, "then": [{"say": "You like tea."}]},
    ],
    "otherwise": [{"say": "Noted."}],
}


def small_window(home: Path) -> None:
    """Let the starter config fold after a few turns."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "event_window": 8}))


async def payloads(stack: EmbeddedStack, session_id: str) -> list[EventPayload]:
    return [parse_payload(event) for event in await read_log(stack, session_id)]


@pytest.mark.nightly  # tests/service/agent/test_compaction.py folds, test_forgetting.py carries a summary
async def test_a_long_talk_is_folded_and_the_next_session_goes_on_with_the_same_summary(
    tmp_path: Path,
) -> None:
    score = tmp_path / "score.json"
    score.write_bytes(orjson.dumps(SCORE))
    async with running_stack_in_thread(score, prepare=small_window) as stack:
        async with console_user(stack.url, token=stack.secret("operator-token")) as user:
            answers = [await user.asks(f"message {number}") for number in range(12)]
            assert answers[0] == "Noted." and answers[-1] == "You like tea."
            stack.run("agent", "stop", "main")
            stack.run("agent", "start", "main")
            assert await user.asks("what did we do yesterday?") == "You like tea."
        by_start = sorted(await sessions_of(stack), key=lambda found: str(found["session_id"]))
        first, second = [await payloads(stack, str(s["session_id"])) for s in by_start]
        if not any(isinstance(p, SessionStopped) for p in first):
            first, second = second, first
        assert_replay_is_deterministic(await read_log(stack, str(by_start[0]["session_id"])))
    assert any(isinstance(p, MemoryCompacted) and p.through_rev for p in first)
    assert isinstance(first[-1], SessionStopped) and first[-1].summary == YESTERDAY["summary"]
    assert isinstance(second[0], SessionStarted)
    folded = [p.summary.summary for p in first if isinstance(p, MemoryCompacted) and not p.failed]
    assert second[0].seed[0].summary.summary == folded[-1]
    assert sum(isinstance(p, CarriedEvent) for p in second) > 2


def look_back(mode: str, session_id: str | None = None) -> dict[str, object]:
    """Return a call that searches past sessions for what the message says after a colon."""
    more = {"session_id": session_id} if session_id else {}
    arguments = {"store": "session", "mode": mode, "query": "{match.2}", **more}
    return {"call": {"name": "choir.memory.query", "arguments": arguments}}


PLACE = "Taberna da Esperanca"
DINNER = f"We had dinner in Lisbon at {PLACE}."
WHERE = "where did we eat in Lisbon?"
PAST = {
    "rules": [
        {
            "when": {"regex": "^where did we eat", "system_contains": f"user: {DINNER}"},
            "then": [{"say": "At the Taberna, as you said."}],
        },
        {
            "when": {"regex": "open (http\\S+)"},
            "then": [
                {
                    "call": {
                        "name": "choir.web.browse",
                        "arguments": {"action": "open", "url": "{match.1}"},
                    }
                },
                {"say": "{result}"},
            ],
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


async def until_archived(stack: EmbeddedStack) -> None:
    """Wait until memory has every ended session."""
    async with asyncio.timeout(60), make_client(stack.endpoint) as client:
        while "choir_sessions_to_archive 0.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.1)


async def dinner_and_thirty_later_sessions(stack: EmbeddedStack) -> None:
    """Archive 31 short sessions of `main`, as control does when a session ends."""
    nats = str(stack.children()["endpoints"]["nats"])
    keep = MemoryConfig().mid_term_sessions
    began = datetime.now(UTC) - timedelta(days=40)
    async with Bus(nats, stack.secret("nats-key-control"), "control") as bus:
        memory = NatsSessionMemoryClient(bus)
        dinner = conversation_log("dinner", DINNER, began=began, summary="Ada had a meal.")
        await memory.archive(dinner.page(keep=keep))
        for day in range(1, 31):
            said, later = f"Today ({day}) I watered the plants.", began + timedelta(days=day)
            script = conversation_log(
                f"day-{day}", said, began=later, summary="Plants were watered."
            )
            await memory.archive(script.page(keep=keep))


@dataclass(frozen=True, slots=True)
class Watched:
    """A stack with an empty home directory of its user, and a watch on its connections."""

    stack: EmbeddedStack
    home: Path
    connections: ConnectionWatch


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    home = tmp_path_factory.mktemp("home")
    score = home.with_suffix(".json")
    score.write_bytes(orjson.dumps(PAST))
    with running_stack(score, env={"HOME": str(home)}) as stack:
        supervisor = int(stack.children()["supervisor_pid"])
        with watching_connections(supervisor) as connections:
            yield Watched(stack, home, connections)


@pytest.mark.nightly  # tests/service/memory/test_archive.py finds it, test_reminders.py reminds
async def test_what_was_said_thirty_sessions_ago_is_found_read_and_reminded_of(
    watched: Watched,
) -> None:
    stack = watched.stack
    await dinner_and_thirty_later_sessions(stack)
    for more in ([], ["--mode", "text"]):
        search = ("memory", "search", "main", WHERE, *more)
        assert PLACE in await asyncio.to_thread(stack.run, *search)
    async with console_user(stack.url, token=stack.secret("operator-token")) as user:
        assert await user.asks(WHERE) == "At the Taberna, as you said."
        assert DINNER in await user.asks(f"look back: {WHERE}")
        assert "Ada had a meal." in await user.asks("look back: which meal was it?")
        assert DINNER in await user.asks("read dinner for: Lisbon")


async def test_no_process_leaves_files_of_a_vendor_or_speaks_to_anybody_unasked(
    watched: Watched,
) -> None:
    stack = watched.stack
    # the offline embedding model and the browser bring vendors' code of their own
    stack.run("memory", "put", "main", "The anchor is rusty.")
    async with asyncio.timeout(120):  # its vector is made in the background
        while "vector" not in stack.run("memory", "search", "main", "a rusty anchor"):
            await asyncio.sleep(0.2)
    async with console_user(stack.url, token=stack.secret("operator-token")) as user:
        assert "error" in await user.asks("open http://169.254.169.254/")
    assert watched.connections.samples > 10
    assert watched.connections.remote_connections == set()
    assert files_below(watched.home) == []
