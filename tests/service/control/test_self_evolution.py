"""An agent designs a skill, a human approves it, the agent is updated, its next session uses it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import OPERATOR_TOKEN, World, until
from tests.support.preloaded_choirctl import run_choirctl
from tests.support.repositories import GitRepository

ON: JsonObject = {
    "call": {"name": "choir.skill.transition", "arguments": {"on": "complete", "context": {}}}
}
WASH: JsonObject = {
    "name": "wash",
    "description": "Wash up.",
    "initial_state": "soak",
    "states": {
        "soak": {
            "objective": "Soak.",
            "allowed_tools": ["choir.fs.read"],
            "transitions": [{"on": "complete", "to": "dry"}],
        },
        "dry": {"terminal": True},
    },
    "max_steps": 4,
}
PROPOSE: JsonObject = {"spec": WASH, "reason": "The user asks for it daily."}
SCORE: JsonObject = {
    "rules": [
        {
            "when": {"contains": "learn to wash"},
            "then": [
                {
                    "call": {
                        "name": "choir.skill.start",
                        "arguments": {"skill": "skill-builder", "input": {"wish": "wash"}},
                    }
                },
                ON,
                ON,
                ON,
                {"call": {"name": "choir.propose.skill", "arguments": PROPOSE}},
                ON,
                {"say": "I have proposed it."},
            ],
        },
        {
            "when": {"contains": "wash up"},
            "then": [
                {
                    "call": {
                        "name": "choir.skill.start",
                        "arguments": {"skill": "wash", "input": {}},
                    }
                },
                ON,
                {"say": "All is clean."},
            ],
        },
    ],
    "otherwise": [{"say": "I have no line for that."}],
}


@pytest.fixture
def remote(stopped: World) -> GitRepository:
    """The repository of `main`, with an identity and nothing else."""
    made = GitRepository(stopped.home / "remotes/main.git")
    made.commit({"identity/SOUL.md": "I learn."})
    path = stopped.settings.config_file
    config = json.loads(path.read_text())
    config["agents"]["main"]["repo"] = {"url": str(made.path)}
    path.write_text(json.dumps(config))
    return made


@pytest.fixture
async def real(stopped: World, remote: GitRepository) -> AsyncIterator[World]:
    """A ready choird whose agent is a real process that follows the score."""
    async with run_rehearsal(Score.model_validate_json(json.dumps(SCORE))) as model:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        config["crash_detection_threshold_ms"] = 60_000
        path.write_text(json.dumps(config))
        await stopped.start(ProcessRuntime(stopped.home, os.environ))
        yield stopped
        await stopped.stop()


async def shown(world: World, path: str) -> dict[str, Any]:
    found: dict[str, Any] = (await world.get(path)).json()
    return found


async def until_session(world: World, other_than: str | None) -> str:
    """Wait until `main` runs in a session other than that; return its id."""
    session: list[str] = []

    async def there() -> bool:
        view = await shown(world, "/v1/agents/main")
        if view["state"] == "running" and view["session_id"] != other_than:
            session.append(view["session_id"])
        return bool(session)

    await until(there, 60)
    return session[0]


async def until_said(world: World, text: str) -> None:
    """Wait until the conversation has heard exactly this: some model calls of a real process away."""

    async def heard() -> bool:
        return text in world.gateway.texts

    await until(heard, 120)


async def until_state(world: World, approval: str, state: str) -> dict[str, Any]:
    view: dict[str, Any] = {}

    async def reached() -> bool:
        view.update(await shown(world, f"/v1/approvals/{approval}"))
        assert view["state"] != "failed", view["detail"]
        return bool(view["state"] == state)

    await until(reached, 90)
    return view


async def test_an_agent_designs_a_skill_and_its_next_session_uses_it(
    real: World, remote: GitRepository
) -> None:
    before = remote.git("rev-parse", "main")
    build = await real.post("/v1/agents/main/build")

    async def built() -> bool:
        view = await shown(real, f"/v1/operations/{build.json()['operation_id']}")
        return bool(view["status"] == "succeeded")

    await until(built, 60)
    await real.post("/v1/agents/main/start", json={})
    first = await until_session(real, None)
    await real.say("learn to wash", "u1")
    await until_said(real, "I have proposed it.")
    assert remote.git("rev-parse", "main") == before  # nothing without a human

    [asked] = (await shown(real, "/v1/approvals"))["items"]
    view = await shown(real, f"/v1/approvals/{asked['approval_id']}")
    assert list(view["basis"]["files"]) == ["skills/wash.json"]
    decided = await real.post(
        f"/v1/approvals/{asked['approval_id']}/approve", json={"digest": view["digest"]}
    )
    assert decided.status_code == 200
    done = await until_state(real, asked["approval_id"], "applied")
    assert "is updated" in done["detail"]
    assert json.loads(remote.git("show", "main:skills/wash.json")) == WASH

    second = await until_session(real, first)
    await real.say("wash up", "u2")
    await until_said(real, "All is clean.")
    told = [text.split(":")[0] for text in real.gateway.texts if "the skill wash" in text]
    # the decision itself is said in the message that asked
    assert told[0].startswith("main requests the skill wash") and told[1:] == ["Done"]
    events = (await shown(real, f"/v1/sessions/{second}/events?limit=200"))["items"]
    assert [e["payload"]["skill"] for e in events if e["type"] == "skill_started"] == ["wash"]

    back = await real.post(f"/v1/approvals/{asked['approval_id']}/rollback")
    assert back.status_code == 200, back.text
    await until_state(real, asked["approval_id"], "rolled_back")
    assert "skills/wash.json" not in remote.git("ls-tree", "-r", "--name-only", "main")
    await until_session(real, second)
    again = await real.post(f"/v1/approvals/{asked['approval_id']}/rollback")
    assert again.status_code == 409


async def test_a_setting_an_agent_proposed_is_in_force_once_approved_and_taken_back(
    world: World, agent: AgentHand
) -> None:
    request = ApprovalRequest(
        request_type="config_change",
        call_id="c1",
        payload={"patch": {"budgets": {"max_core_jobs": 3}}, "reason": "fewer"},
    )
    await agent.call("REQUEST_APPROVAL", request)
    [asked] = (await shown(world, "/v1/approvals"))["items"]
    name = asked["approval_id"]
    version = (await shown(world, "/v1/status"))["config_version"]
    assert (await world.post(f"/v1/approvals/{name}/approve")).status_code == 200
    await until_state(world, name, "applied")
    assert json.loads(world.settings.config_file.read_text())["budgets"] == {"max_core_jobs": 3}
    assert (await shown(world, "/v1/status"))["config_version"] > version
    assert (await world.post(f"/v1/approvals/{name}/rollback")).status_code == 200
    await until_state(world, name, "rolled_back")
    assert "max_core_jobs" not in world.settings.config_file.read_text()
    assert (await world.post("/v1/approvals/appr_none/rollback")).status_code == 404


async def test_an_operator_takes_back_on_the_command_line(world: World, agent: AgentHand) -> None:
    request = ApprovalRequest(
        request_type="config_change", call_id="c1", payload={"patch": {"event_window": 60}}
    )
    await agent.call("REQUEST_APPROVAL", request)
    [asked] = (await shown(world, "/v1/approvals"))["items"]
    name = asked["approval_id"]
    assert (await choirctl(world, "rollback", name))[0] == 5
    code, said = await choirctl(world, "approve", name)
    assert code == 0 and "config.json: event_window\n+60" in said
    await until_state(world, name, "applied")
    assert await choirctl(world, "rollback", name) == (0, f"{name}: reverting.\n")
    await until_state(world, name, "rolled_back")


async def choirctl(world: World, *args: str) -> tuple[int, str]:
    """Run `choirctl approval`; return its exit code and what it said."""
    env = {"CHOIR_URL": world.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN}
    done = await asyncio.to_thread(run_choirctl, "approval", *args, env=env)
    return done.returncode, done.stdout
