"""What an agent no longer keeps in memory is still in control's log: sent once, and found again."""

import asyncio

from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_agent.tools.builtin.memory_query import MemoryQueryTool
from choir_agent.tools.tool import CallContext
from choir_common.clock import SystemClock
from choir_common.eventlog.chain import find_break
from choir_common.wire.events import UserMessageStarted
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import (
    HOST_TOOL,
    HostToolRequest,
    HostToolResponse,
    LogMatches,
    LogSearch,
)
from tests.service.agent.control_stand_in import AGENT, SESSION, ControlStandIn, run_control
from tests.support.agent_fakes import FixedHeartbeatSettings, silent_log

KEPT = 20_000
MESSAGES = 300


def make_log() -> SessionLog:
    return silent_log(SESSION, kept_bytes=KEPT)


async def replicate(control: ControlStandIn, client: ControlClient, log: SessionLog) -> None:
    """Write many messages into the log and make them durable by heartbeats."""
    replication = LogReplicator(
        control=client,
        session_log=log,
        settings=FixedHeartbeatSettings(),
        clock=SystemClock(),
        agent_id=AGENT,
        epoch=1,
    )
    beating = asyncio.create_task(replication.run())
    try:
        for number in range(MESSAGES):
            text = "the treasure is under the oak" if number == 3 else f"message {number} " * 10
            said = UserMessageStarted(turn_id="t", inbox_id=f"i{number}", dm="d", text=text)
            rev = log.append("edge", said)
            if number % 100 == 50:
                # an answer that is lost: the batch is sent again, unchanged
                control.lose_answers = 1
                async with asyncio.timeout(60):
                    await replication.durable(rev)
        async with asyncio.timeout(60):
            await replication.durable(log.head.rev)
    finally:
        beating.cancel()


def answer_from(control: ControlStandIn) -> None:
    """Let the stand-in search its log as control does."""

    def search(request: HostToolRequest) -> HostToolResponse:
        assert request.tool_name == HOST_TOOL
        asked = LogSearch.model_validate(request.input, strict=False)
        found = [
            event
            for event in control.events
            if event.rev < asked.before_rev
            and any(
                event.hash.startswith(term)
                if asked.mode == "hash"
                else term in event.model_dump_json().lower()
                for term in asked.terms
            )
        ]
        output = LogMatches(events=tuple(found[: asked.limit])).model_dump(mode="json")
        return HostToolResponse(call_id=request.call_id, status="success", output=output)

    control.host_tool = search


async def ask(client: ControlClient, log: SessionLog, **more: str) -> JsonObject:
    given: JsonObject = {"store": "working", **more}
    return (await MemoryQueryTool(client, log).run(CallContext("call_1", "edge"), given)).output


def revs(output: JsonObject) -> list[object]:
    hits = output["hits"]
    assert isinstance(hits, list)
    return [hit["rev"] for hit in hits if isinstance(hit, dict)]


async def test_events_leave_memory_once_control_has_them_and_the_log_stays_whole() -> None:
    async with run_control("http://127.0.0.1:1/v1") as control:
        client, log = ControlClient(control.boot()), make_log()
        await replicate(control, client, log)
        await client.close()
    assert len(control.events) == MESSAGES and find_break(control.events) is None
    assert 0 < sum(len(entry.wire) for entry in log.entries) <= KEPT
    assert len(log.entries) < MESSAGES / 2


async def test_the_working_store_finds_what_left_memory_by_words_and_by_hash() -> None:
    async with run_control("http://127.0.0.1:1/v1") as control:
        client, log = ControlClient(control.boot()), make_log()
        await replicate(control, client, log)
        assert log.entries[0].rev > 4
        answer_from(control)
        found = await ask(client, log, query="Treasure oak")
        assert revs(found) == [4] and found["covers_from_rev"] == 1 and "note" not in found
        named = await ask(client, log, query=control.events[3].hash[:12], mode="hash")
        assert revs(named) == [4]
        newest = await ask(client, log, query=f"{MESSAGES - 1}")
        assert revs(newest)[0] == MESSAGES
        await client.close()


async def test_without_control_the_newest_part_is_searched_and_the_answer_says_so() -> None:
    async with run_control("http://127.0.0.1:1/v1") as control:
        client, log = ControlClient(control.boot()), make_log()
        await replicate(control, client, log)
        first = log.entries[0].rev
        found = await ask(client, log, query=f"{MESSAGES - 1}")
        assert revs(found) == [MESSAGES] and found["covers_from_rev"] == first
        assert str(first) in str(found["note"])
        await client.close()
