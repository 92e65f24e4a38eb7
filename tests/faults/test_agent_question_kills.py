"""Real agents that ask one another, as docs/agents.md says, while their processes are killed."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.conftest import bus, dsn, nats_url, shared_nats_url, stopped, template
from tests.service.control.world import World, until
from tests.service.memory.servers import database, nats, postgres

__all__ = [
    "bus",
    "database",
    "dsn",
    "nats",
    "nats_url",
    "postgres",
    "shared_nats_url",
    "stopped",
    "template",
]
PAGE = Path(__file__).parents[2] / "docs/agents.md"
CALL = {"name": "choir.agent.ask", "arguments": {"agent": "helper", "question": "which tea?"}}
SCORE = {
    "rules": [
        {
            "when": {"contains": "please ask"},
            "then": [{"call": CALL}, {"say": "helper has answered"}],
        },
        {"when": {"contains": "which tea?"}, "then": [{"delay_ms": 4000, "say": "green"}]},
    ]
}


def write_config(world: World, model: str) -> None:
    """Add what the page says to a configuration with two agents."""
    [block] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    said = json.loads(block)["agents"]
    file = world.settings.config_file
    config = json.loads(file.read_text())
    main = config["agents"]["main"]
    helper = {**main["defaults"], "workspace": "spare", "dm": "second"}
    config["agents"] = {
        "main": {**main, **said["main"]},
        "helper": {"defaults": helper, "autostart": True, **said["helper"]},
    }
    config["models"]["default"]["endpoint"] = model
    file.write_text(json.dumps(config))


async def kill(world: World, agent: str) -> None:
    view = (await world.get(f"/v1/agents/{agent}")).json()
    os.kill(view["pid"], signal.SIGKILL)

    async def is_back() -> bool:
        now = (await world.get(f"/v1/agents/{agent}")).json()
        return bool(now["state"] == "running" and now["epoch"] > view["epoch"])

    await until(is_back)


async def log_of(world: World, agent: str) -> list[dict[str, Any]]:
    session = (await world.get(f"/v1/agents/{agent}")).json()["session_id"]
    assert (await world.verify(session))["ok"]
    items: list[dict[str, Any]] = (await world.get(f"/v1/sessions/{session}/events")).json()[
        "items"
    ]
    return items


@pytest.mark.nightly
async def test_a_question_is_answered_once_whatever_is_killed(stopped: World) -> None:
    score = Score.model_validate(SCORE)
    async with run_rehearsal(score) as model:
        write_config(stopped, model)
        await stopped.start(ProcessRuntime(stopped.home, os.environ))

        async def is_taken() -> bool:
            return bool(
                await stopped.database.fetchval(
                    "SELECT session_id FROM choir_control.inbox WHERE dm = 'ask.main.helper'"
                )
            )

        await stopped.say("please ask", "u1")
        await until(is_taken)
        await kill(stopped, "helper")
        await kill(stopped, "main")
        await stopped.stop()
        await stopped.start(ProcessRuntime(stopped.home, os.environ))

        async def is_answered() -> bool:
            return "helper has answered" in stopped.gateway.texts

        await until(is_answered)
        assert sorted(stopped.gateway.texts) == ["green", "helper has answered"]
        rows = await stopped.database.fetch("SELECT * FROM choir_control.agent_questions")
        assert [(row["dm"], row["state"]) for row in rows] == [("ask.main.helper", "answered")]

        asking, answering = await log_of(stopped, "main"), await log_of(stopped, "helper")
        [result] = [it["payload"] for it in asking if it["type"] == "tool_result_committed"]
        [question] = [it["payload"] for it in answering if it["type"] == "user_msg"]
        assert result["output"]["answer"] == "green"
        assert result["output"]["session_id"] == answering[0]["session_id"]
        origin = question["wake_up"]["question"]
        assert (origin["session_id"], origin["call_id"]) == (
            asking[0]["session_id"],
            result["call_id"],
        )
        assert origin["question_id"] == result["output"]["question_id"]
        await stopped.stop()
