"""What the model reads after a stop in good order: the real agent on a real control."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.http.listen import bind_tcp, serve
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_local.rehearsal.turn import lane_of
from tests.service.control.rolling import ended
from tests.service.control.test_real_agent import pid_of
from tests.service.control.world import World, until
from tests.service.images.forge import a_skill
from tests.support.nightly import nightly_from
from tests.support.repositories import GitRepository

Message = dict[str, Any]


class RecordingModel:
    """A model server that keeps each prompt of the edge lane, and refuses to summarise a session."""

    def __init__(self) -> None:
        self.prompts: list[list[Message]] = []
        self.hold: asyncio.Event | None = None
        """The model answers the edge lane only when this is set."""
        self.waiting = 0
        self.rolling_summary: str | None = None
        """The answer to a compaction; without it the model refuses those, too."""

    async def complete(self, request: Request) -> Response:
        messages: list[Message] = orjson.loads(await request.body())["messages"]
        lane = lane_of(messages[0]["content"])
        if lane == "compaction" and self.rolling_summary is not None:
            delta = {"mode": "append", "summary_update": self.rolling_summary}
            return _answer(orjson.dumps({"memory_delta": delta}).decode())
        if lane != "edge":
            return Response(status_code=401)
        self.prompts.append(messages)
        if self.hold is not None:
            self.waiting += 1
            await self.hold.wait()
        return _answer(f"answer {len(self.prompts)}")


def _answer(text: str) -> Response:
    said = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    answer = {"id": "x", "model": "recorder", "choices": [choice], "usage": usage}
    return Response(orjson.dumps(answer), media_type="application/json")


@contextlib.asynccontextmanager
async def serving(model: RecordingModel) -> AsyncIterator[str]:
    """Serve the model while the block runs; yields its endpoint."""
    app = Starlette(routes=[Route("/v1/chat/completions", model.complete, methods=["POST"])])
    listener, stop = bind_tcp("127.0.0.1", 0, "port"), asyncio.Event()
    server = asyncio.create_task(serve(app, [listener], stop))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        stop.set()
        await server


@pytest.fixture
async def model() -> RecordingModel:
    return RecordingModel()


@pytest.fixture
async def home(stopped: World, model: RecordingModel) -> AsyncIterator[World]:
    """A ready choird whose agent `main` is a real process."""
    async with serving(model) as endpoint:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"] = {"model": "recorder", "endpoint": endpoint}
        config["crash_detection_threshold_ms"] = 30_000
        path.write_text(json.dumps(config))
        stopped.settings = stopped.settings.model_copy(update={"agents_stop_s": 45.0})
        await stopped.start(ProcessRuntime(stopped.home, os.environ))
        yield stopped
        await stopped.stop()


async def ask(world: World, number: int) -> None:
    await world.say(f"question {number}", f"u{number}")
    await world.delivered(number)


async def restart(world: World) -> None:
    answer = await world.post("/v1/agents/main/restart")
    assert answer.status_code == 200, answer.text


async def down_and_up(world: World) -> None:
    await world.stop()
    await world.start(ProcessRuntime(world.home, os.environ))
    await pid_of(world)


async def stop_and_start(world: World) -> None:
    for verb in ("stop", "start"):
        answer = await world.post(f"/v1/agents/main/{verb}", json={})
        assert answer.status_code == 200, answer.text


Way = Callable[[World], Awaitable[None]]


@pytest.mark.parametrize(
    "ways",
    nightly_from(1, [(down_and_up,), (restart, stop_and_start, down_and_up)]),
    ids=["down", "all"],
)
async def test_after_every_kind_of_stop_the_prompt_goes_on_as_after_a_kill(
    home: World, model: RecordingModel, ways: tuple[Way, ...]
) -> None:
    await pid_of(home)
    await ask(home, 1)
    await ask(home, 2)
    for number, way in enumerate(ways, start=3):
        await way(home)
        await ask(home, number)
    os.kill(await pid_of(home), signal.SIGKILL)
    await ask(home, len(ways) + 3)
    for number, (before, after) in enumerate(pairwise(model.prompts)):
        # word for word, and from the first byte on: nothing is summed up, and the prefix stays the same
        assert after[: len(before)] == before
        assert after[len(before)] == {"role": "assistant", "content": f"answer {number + 1}"}
        assert f"question {number + 2}" in after[len(before) + 1]["content"]
        assert len(after) == len(before) + 2
    sessions = (await home.get("/v1/sessions?agent=main")).json()["items"]
    assert len({session["session_id"] for session in sessions}) == len(ways) + 1
    for session in sessions:
        assert (await home.verify(session["session_id"]))["ok"]


@pytest.mark.nightly  # test_rollout.py updates and is replaced, the test above goes on
async def test_an_update_a_failed_one_and_its_rollback_keep_the_conversation(
    home: World, model: RecordingModel
) -> None:
    repository = GitRepository(home.home / "remotes/main.git")
    repository.commit({"identity/SOUL.md": "I am new."})
    path = home.settings.config_file
    config = json.loads(path.read_text())
    config["agents"]["main"]["repo"] = {"url": str(repository.path)}
    path.write_text(json.dumps(config))
    for step in ("load", "apply"):
        assert (await home.post(f"/v1/config/{step}")).status_code == 200
    await pid_of(home)
    await ask(home, 1)
    updated = await ended(home, "/v1/agents/main/update")
    assert updated["result"]["agents"][0]["outcome"] == "redeployed"
    await ask(home, 2)
    # loading and building take it, and the agent refuses it at its start
    repository.commit({"skills/tidy.json": a_skill("tidy", tool="weather.nope")})
    failed = await ended(home, "/v1/agents/main/update")
    assert failed["status"] == "failed" and "again" in str(failed)
    await ask(home, 3)

    async def is_asked() -> bool:
        return len(model.prompts) >= 3

    await until(is_asked)  # a notice of the failed update may have come before the answer
    spoken = [[m for m in prompt if m["role"] != "system"] for prompt in model.prompts]
    assert len(spoken) == 3
    for before, after in pairwise(spoken):
        assert after[: len(before)] == before and len(after) == len(before) + 2
