"""Time until the first visible token of a reply, compared with the same model read directly.

The model is a fake in this process that writes its first token at once when it gets a request, so everything
else is Choir's own time. Both halves are measured: from the message to the request at the model, and from the
first token to the client. A second measurement compares the CPU time of turns with and without streaming.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import psutil

from choir_common.http.client import make_client
from choir_common.http.response_parser import ServerSentEvent, parse_events
from tests.bench.figures import FirstTokenFigures, FirstTokenSample, first_token_figures
from tests.bench.prompt_prefix import uncompacted_config
from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    running_stack_in_thread,
)
from tests.support.streaming_model import StreamingModel, run_streaming

SAMPLES, WARM_UP = 100, 10
CPU_BLOCKS, CPU_TURNS = 6, 100
MESSAGES, EVENTS = "/v1/dms/console/messages", "/v1/dms/console/events"


async def measure_first_token() -> FirstTokenFigures:
    """Return the times to the first token, through Choir and directly."""
    async with run_streaming() as model:

        def prepare(home: Path) -> None:
            # A compaction would be one more call of the model, which nobody answers here.
            uncompacted_config(home)
            path = home / "config.json"
            config: dict[str, Any] = json.loads(path.read_text())
            config["models"] = {"default": {"model": "m", "endpoint": model.endpoint}}
            config["summary_timeout_ms"] = 0
            path.write_text(json.dumps(config))

        async with running_stack_in_thread(prepare=prepare, like_user=True) as stack:
            return await _compare(stack, model)


async def measure_cpu(stack: EmbeddedStack) -> dict[str, float]:
    """Return the CPU milliseconds of a plain turn with and without streaming, in alternating blocks."""
    taken: dict[str, list[float]] = {"streamed": [], "whole": []}
    async with console_user(stack.endpoint) as user:
        for number in range(CPU_BLOCKS + 2):
            way = ("streamed", "whole")[number % 2]
            await asyncio.to_thread(_switch, stack, way == "streamed")
            await user.asks("#tools=0 hello")
            cpu_ms = await _cpu_of_block(stack, user)
            # the first block of each is a warm-up
            if number > 1:
                taken[way].append(cpu_ms)
    return {f"{way}_cpu_ms": round(sum(ms) / len(ms), 2) for way, ms in taken.items()}


async def _compare(stack: EmbeddedStack, model: StreamingModel) -> FirstTokenFigures:
    choir: list[FirstTokenSample] = []
    direct: list[FirstTokenSample] = []
    timeout = httpx2.Timeout(10, read=60)
    async with make_client(stack.endpoint) as client, httpx2.AsyncClient(trust_env=False) as plain:
        async with client.stream("GET", EVENTS, timeout=timeout) as response:
            events = parse_events(response.aiter_bytes())
            for number in range(WARM_UP + SAMPLES):
                body, sample = await _through_choir(client, events, model, number)
                floor = await _directly(plain, model, body)
                if number >= WARM_UP:
                    choir.append(sample)
                    direct.append(floor)
    return first_token_figures(choir, direct)


async def _through_choir(
    client: httpx2.AsyncClient,
    events: AsyncIterator[ServerSentEvent],
    model: StreamingModel,
    number: int,
) -> tuple[dict[str, Any], FirstTokenSample]:
    """Send a message and return the body of its model request, and the times."""
    start = time.perf_counter()
    sending = asyncio.create_task(_send_message(client, number))
    call = await model.next_call()
    written = time.perf_counter()
    call.say("Once")
    await _until(events, "delta")
    seen = time.perf_counter()
    call.end(" upon a time.")
    await _until(events, "message")
    return call.body, _sample(start, written, seen, accepted=await sending)


async def _send_message(client: httpx2.AsyncClient, number: int) -> float:
    """Send a message and return the time when it was accepted."""
    (await client.post(MESSAGES, json={"text": f"message {number}"})).raise_for_status()
    return time.perf_counter()


async def _directly(
    client: httpx2.AsyncClient, model: StreamingModel, body: dict[str, Any]
) -> FirstTokenSample:
    start = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        answering = tasks.create_task(_answer_one(model))
        async with client.stream(
            "POST", f"{model.endpoint}/chat/completions", json=body
        ) as response:
            events = parse_events(response.aiter_bytes())
            await anext(events)
            seen = time.perf_counter()
            async for _ in events:
                pass
    return _sample(start, answering.result(), seen)


async def _answer_one(model: StreamingModel) -> float:
    """Answer the next request and return the time when it arrived."""
    call = await model.next_call()
    written = time.perf_counter()
    call.say("Once")
    call.end(" upon a time.")
    return written


def _sample(
    start: float, written: float, seen: float, accepted: float | None = None
) -> FirstTokenSample:
    return FirstTokenSample(
        request_ms=(written - start) * 1000,
        shown_ms=(seen - written) * 1000,
        total_ms=(seen - start) * 1000,
        accepted_ms=((accepted or start) - start) * 1000,
    )


async def _until(events: AsyncIterator[ServerSentEvent], kind: str) -> None:
    async with asyncio.timeout(60):
        while (await anext(events)).event != kind:
            pass


def _switch(stack: EmbeddedStack, streaming: bool) -> None:
    path = stack.home / "config.json"
    config = json.loads(path.read_text())
    config["agents"]["main"]["streaming"] = streaming
    path.write_text(json.dumps(config))
    stack.run("config", "load")
    stack.run("config", "apply")


async def _cpu_of_block(stack: EmbeddedStack, user: ConsoleUser) -> float:
    agent = await stack.agent_pid()
    names = ("control", "gateway", "nats")
    processes = [psutil.Process(stack.pid(name)) for name in names]
    processes += [psutil.Process(agent)] if agent else []
    before = _cpu_s(processes)
    for _ in range(CPU_TURNS):
        await user.asks("#tools=0 hello")
    return (_cpu_s(processes) - before) * 1000 / CPU_TURNS


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
