"""Core jobs at work while the user talks, whatever channel carries it; and what the log must then show."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from choir_common.wire.events import (
    Cancelled,
    CoreReported,
    CoreStarted,
    CoreStopped,
    EventPayload,
    InjectedInstruction,
    Reply,
    ReportBegun,
    ToolResultCommitted,
    parse_payload,
)
from tests.support.replay import assert_replay_is_deterministic
from tests.support.stack import EmbeddedStack, read_log, sessions_of, verify

SCORE = Path(__file__).parents[2] / "docs" / "demo" / "core-jobs.score.json"
FRUIT, TOOLS = "pear\napple\nfig\napple\n", "saw\naxe\nhammer\n"
JOBS = ("sort-fruit", "sort-tools", "watch-harbour")
P = TypeVar("P", bound=EventPayload)


class Talk:
    """A conversation in which both sides may speak at any time."""

    def __init__(
        self, say: Callable[[str], Awaitable[object]], hear: Callable[[], Awaitable[str]]
    ) -> None:
        self._say, self._hear = say, hear
        self._waiting: list[str] = []

    async def asks(self, text: str, words: str) -> str:
        """Say something; return the first message that holds `words`."""
        await self._say(text)
        return await self.hears(words)

    async def hears(self, words: str, timeout_s: float = 300) -> str:
        """Return the next message that holds `words`; others wait for their turn."""
        async with asyncio.timeout(timeout_s):
            while True:
                for text in self._waiting:
                    if words in text:
                        self._waiting.remove(text)
                        return text
                self._waiting.append(await self._hear())


def leave_the_lists(stack: EmbeddedStack) -> Path:
    """Put both lists into the agent's workspace; return it."""
    workspace = stack.home / "workspaces" / "main"
    (workspace / "fruit.txt").write_text(FRUIT)
    (workspace / "tools.txt").write_text(TOOLS)
    return workspace


async def work_while_talking(talk: Talk) -> None:
    """Start three jobs, talk, answer one, cancel one; hear what became of each."""
    await talk.asks("Please sort both lists, and watch the harbour", "Three core jobs")
    await talk.asks("What is six times seven?", "Forty-two")
    await talk.asks("Please write it down", "edge_restricted")
    await talk.hears("May a fruit stand in the list twice?")
    await talk.asks("And how are they doing?", "Running now: sort-fruit")
    await talk.asks("I want each fruit once", "told sort-fruit")
    await talk.hears("each fruit stands there once")
    await talk.hears("axe, hammer, saw")
    await talk.asks("Then forget the harbour", "cancelled watch-harbour")
    await talk.hears("'watch-harbour' was cancelled")


async def check_the_work(stack: EmbeddedStack) -> None:
    """Assert what stands in the files and in the log."""
    workspace = stack.home / "workspaces" / "main"
    assert (workspace / "fruit.txt").read_text() == "apple\nfig\npear\n"
    assert (workspace / "tools.txt").read_text() == "axe\nhammer\nsaw\n"
    assert not (workspace / "answer.txt").exists()
    (session, *_) = await sessions_of(stack)
    verdict = await verify(stack, session["session_id"])
    assert verdict.ok, verdict
    events = await read_log(stack, session["session_id"])
    state = assert_replay_is_deterministic(events)
    meanwhile = next(e.rev for e in events if "Forty-two" in str(e.payload.get("text", "")))
    assert meanwhile < min(e.rev for e in events if e.type == "core_stopped")
    assert (state.jobs, state.due, state.turn) == ((), (), None)
    check_the_jobs([parse_payload(event) for event in events])


def check_the_jobs(log: list[EventPayload]) -> None:
    """Assert that each job ended once, that this was told once, and who had a say in it."""
    names = {started.job_id: started.job_name for started in _all(log, CoreStarted)}
    assert sorted(names.values()) == sorted(JOBS)
    ends = {stopped.job_name: stopped.outcome for stopped in _all(log, CoreStopped)}
    assert ends == {
        "sort-fruit": "completed", "sort-tools": "completed", "watch-harbour": "cancelled",
    }  # fmt: skip
    assert len(_all(log, CoreStopped)) == len(JOBS)
    told = Counter(begun.subject for begun in _all(log, ReportBegun))
    assert {subject: told[subject] for subject in names} == dict.fromkeys(names, 1)
    reports = [reply for reply in _all(log, Reply) if reply.kind == "report"]
    assert len(reports) == len(JOBS) + 1  # and what sort-fruit needed
    assert [injected.by for injected in _all(log, InjectedInstruction)] == ["edge"]
    assert [cancelled.by for cancelled in _all(log, Cancelled)] == ["edge"]
    assert {report.kind for report in _all(log, CoreReported)} == {"need_info", "progress"}
    refused = [r for r in _all(log, ToolResultCommitted) if r.status == "refused"]
    assert [result.output["code"] for result in refused] == ["edge_restricted"]


def _all(log: list[EventPayload], kind: type[P]) -> list[P]:
    return [payload for payload in log if isinstance(payload, kind)]
