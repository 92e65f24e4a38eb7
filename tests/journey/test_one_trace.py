"""One trace from a person's message to its answer: over HTTP, over the bus, through the agent, and back."""

import asyncio
import json
from pathlib import Path

import pytest

from choir_common.http.client import make_client
from tests.support.otlp_collector import Collector, ReceivedSpan, running_collector
from tests.support.stack import EmbeddedStack, console_user, running_stack_in_thread, sessions_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
ABOVE = f"00-{TRACE}-b7ad6b7169203331-01"
CALLS = [
    {
        "name": "choir.memory.upsert",
        "arguments": {"operation": "update", "key": "k", "text": "a very private memory"},
    },
    {"name": "choir.fs.read", "arguments": {"path": "very-private.txt"}},
]
SCORE = {
    "rules": [
        {
            "when": {"lane": "core"},
            "then": [{"say": "a very private result"}],
        },
    ],
    "otherwise": [{"call": CALLS}, {"say": "a very private answer"}],
}


async def says(stack: EmbeddedStack, text: str) -> str:
    """Say something as a client that traces itself would; return the inbox id."""
    async with make_client(stack.endpoint, headers={"traceparent": ABOVE}) as client:
        answer = await client.post("/v1/dms/console/messages", json={"text": text})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["inbox_id"])


def paths(spans: list[ReceivedSpan]) -> set[str]:
    """Return each span of the trace with all that stands above it."""
    by_id = {span.id: span for span in spans if span.trace == TRACE}

    def path(span: ReceivedSpan) -> str:
        above = by_id.get(span.parent)
        name = f"{span.service}: {span.name}"
        return f"{path(above)} > {name}" if above else name

    return {path(span) for span in by_id.values()}


def of(spans: list[ReceivedSpan], name: str) -> ReceivedSpan:
    return next(span for span in spans if span.trace == TRACE and span.name == name)


ACCEPT = "choird: POST /dms/{dm}/messages"
DELIVER = f"{ACCEPT} > choird: choir.gateway.deliver > choir-gateway: choir.gateway.deliver"
TURN = f"{ACCEPT} > choir-agent: invoke_agent edge"
"""The agent's work hangs below the acceptance, although the message lay in a table between the two."""


@pytest.mark.nightly  # tests/service/common/test_tracing.py joins the spans
async def test_from_the_message_to_the_answer_and_to_the_job_it_begins(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    score.write_text(json.dumps(SCORE))
    with running_collector() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        async with running_stack_in_thread(score, env=env) as stack:
            await check_an_answer(stack, collector)
            await check_a_job(stack, collector)
    assert b"private" not in collector.raw_bodies()


async def check_an_answer(stack: EmbeddedStack, collector: Collector) -> None:
    async with console_user(stack.endpoint) as user:
        answer = await user.wait_for_answer(await says(stack, "a very private question"))
    assert answer.text == "a very private answer"

    remember = (
        f"{TURN} > choir-agent: execute_tool choir.memory.upsert > choird: POST /rpc/{{verb}}"
    )
    # each process sends its spans when it likes: what is below may come after what is above
    expected = {
        DELIVER,
        TURN,
        f"{TURN} > choir-agent: wait locks",
        f"{TURN} > choir-agent: execute_tool choir.fs.read",
        f"{remember} > choird: choir.memory.upsert > choir-memory: choir.memory.upsert",
    }
    spans = await asyncio.to_thread(collector.wait_for, lambda found: expected <= paths(found), 120)
    chat = next(s for s in spans if s.said.get("gen_ai.operation.name") == "chat")
    assert f"{TURN} > choir-agent: {chat.name}" in paths(spans)

    session = (await sessions_of(stack))[0]["session_id"]
    for span in spans:
        if span.service == "choir-agent":
            assert span.said["choir.session"] == session
            assert span.said["choir.agent"] == "main"
            assert span.said["choir.lane"] == "edge"
    assert chat.said["gen_ai.usage.input_tokens"] > 0  # type: ignore[operator]
    assert chat.said["gen_ai.response.finish_reasons"] == ["tool_calls"]
    read = of(spans, "execute_tool choir.fs.read")
    assert (read.failed, read.said["choir.tool.status"]) == (True, "error")
    kept = of(spans, "execute_tool choir.memory.upsert")
    assert (kept.failed, kept.said["choir.tool.status"]) == (False, "success")


async def check_a_job(stack: EmbeddedStack, collector: Collector) -> None:
    await says(stack, "#spawn job-1: a very private briefing")
    job = f"{TURN} > choir-agent: invoke_agent core"
    spans = await asyncio.to_thread(collector.wait_for, lambda found: job in paths(found), 120)
    assert [path for path in paths(spans) if path.startswith(f"{job} > choir-agent: chat ")]
    assert of(spans, "invoke_agent core").said["choir.lane"] == "core:job-1"
