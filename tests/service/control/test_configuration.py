"""Configuration is staged and put in force whole: at every cut point there is the old one or the new one."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from choir_common.wire.config_schema import config_schema
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_process import spawn
from tests.service.control.world import MODEL_KEY, World, a_config, until


def edit(world: World, change: Callable[[dict[str, Any]], object]) -> None:
    """Change config.json as an editor would."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


async def load(world: World) -> dict[str, Any]:
    answer = await world.post("/v1/config/load")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def apply(world: World, **body: Any) -> dict[str, Any]:
    answer = await world.post("/v1/config/apply", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def running(world: World) -> dict[str, Any]:
    found: dict[str, Any] = (await world.get("/v1/config")).json()
    return found


async def heartbeat(agent: AgentHand, version: int) -> None:
    beat = agent.heartbeat().model_copy(update={"config_version": version})
    await agent.call("HEARTBEAT", beat)


def named(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [row for row in report["agents"] if row["name"] == name]
    row: dict[str, Any] = found
    return row


def longer(config: dict[str, Any]) -> None:
    config["summary_timeout_ms"] = 31_000


async def test_nothing_changes_until_it_is_applied_and_then_everything_does(world: World) -> None:
    edit(world, longer)
    assert (await running(world))["config"]["summary_timeout_ms"] == 30_000
    staged = await load(world)
    assert [(c["path"], c["before"], c["after"]) for c in staged["changes"]] == [
        ("summary_timeout_ms", 30_000, 31_000)
    ]
    assert (await running(world))["staged"]
    assert (await running(world))["config"]["summary_timeout_ms"] == 30_000
    applied = await apply(world, digest=staged["digest"])
    assert applied["version"] == 2
    now = await running(world)
    assert (now["version"], now["config"]["summary_timeout_ms"]) == (2, 31_000)
    assert (now["staged"], now["source"]) == (False, "file")


async def test_what_is_not_staged_is_not_applied(world: World) -> None:
    nothing = await world.post("/v1/config/apply")
    assert nothing.status_code == 409 and "config load" in nothing.text
    assert (await world.get("/v1/config/diff")).status_code == 409
    edit(world, longer)
    shown = await load(world)
    edit(world, lambda c: c.update(summary_timeout_ms=32_000))
    # edited after it was staged: what was staged counts
    assert (await apply(world, digest=shown["digest"]))["changes"][0]["after"] == 31_000
    await load(world)
    other = await world.post("/v1/config/apply", json={"digest": shown["digest"]})
    assert other.status_code == 409
    assert (await running(world))["version"] == 2


UNFIT = (
    ("{", "Invalid JSON"),
    ('{"agents": {}}', "workspaces"),
    ('{"agents": {}, "workspaces": {}, "budgets": {"max_core_jobs": -1}}', "max_core_jobs"),
    ('{"agents": {}, "workspaces": {}, "surprise": 1}', "surprise"),
    (
        '{"agents": {"a": {"defaults": {"workspace": "w", "llm": "l", "dm": "d"}}}, "workspaces": {}}',
        "agents.a.defaults.workspace",
    ),
    (
        '{"agents": {}, "workspaces": {}, "search": {"s": {"secret": "operator-token"}}}',
        "search.s.secret",
    ),
)


async def test_a_file_that_does_not_fit_is_named_and_stages_nothing(
    world: World, subtests: pytest.Subtests
) -> None:
    for text, place in UNFIT:
        with subtests.test(place):
            world.settings.config_file.write_text(text)
            answer = await world.post("/v1/config/load")
            assert answer.status_code == 400
            assert place in answer.json()["detail"] and "config.json" in answer.json()["detail"]
            assert not (await running(world))["staged"]


async def test_a_failed_load_keeps_what_was_staged(world: World) -> None:
    edit(world, longer)
    staged = await load(world)
    world.settings.config_file.write_text("{")
    assert (await world.post("/v1/config/load")).status_code == 400
    assert (await apply(world, digest=staged["digest"]))["version"] == 2


async def test_a_value_of_a_secret_in_the_file_is_refused_and_not_repeated(world: World) -> None:
    edit(world, lambda c: c["models"]["default"].update(endpoint=f"http://{MODEL_KEY}@x/v1"))
    answer = await world.post("/v1/config/load")
    assert answer.status_code == 400 and "'key'" in answer.text
    assert MODEL_KEY not in answer.text


async def test_each_change_says_what_it_takes(world: World) -> None:
    def change(config: dict[str, Any]) -> None:
        config["models"]["default"]["temperature"] = 0.1
        config["workspaces"]["spare"]["path"] += "-2"
        config["agents"]["third"] = {**config["agents"]["other"]}
        del config["agents"]["never"]
        config["global_repo"] = {"url": "file:///nowhere"}
        config["models"]["deep"] = {"model": "d", "endpoint": "http://d/v1"}

    edit(world, change)
    found = {c["path"]: (c["kind"], c["category"]) for c in (await load(world))["changes"]}
    assert found == {
        "models.default.temperature": ("changed", "hot-reload"),
        "models.deep": ("added", "hot-reload"),
        "workspaces.spare.path": ("changed", "restart-required"),
        "agents.third": ("added", "new-agent"),
        "agents.never": ("removed", "removed-agent"),
        "global_repo": ("added", "restart-required"),
    }


async def test_a_running_agent_is_told_and_gets_the_whole_new_settings(
    world: World, agent: AgentHand
) -> None:
    await heartbeat(agent, 1)
    edit(world, longer)
    await load(world)
    applied = await apply(world)
    assert named(applied["report"], "main")["state"] == "waiting"
    signal_ = await agent.next_signal()
    assert signal_.body.kind == "config_changed"
    answer = json.loads(await agent.call("FETCH_DYNAMIC_CONFIG", b'{"current_config_version": 1}'))
    assert answer["config_version"] == 2
    assert answer["config"]["summary_timeout_ms"] == 31_000
    await heartbeat(agent, 2)
    report = (await world.get("/v1/config/report")).json()
    assert named(report, "main") == {
        "name": "main",
        "state": "applied",
        "version": 2,
        "session_id": agent.spec.session_id,
        "detail": "",
    }


async def test_only_the_newest_news_of_it_waits_for_an_agent(
    world: World, agent: AgentHand
) -> None:
    for number in range(3):
        edit(world, lambda c, n=number: c.update(summary_timeout_ms=40_000 + n))  # type: ignore[misc]
        await load(world)
        await apply(world)
    waiting = await world.database.fetchval(
        "SELECT count(*) FROM choir_control.signals WHERE done_at IS NULL "
        "AND body ->> 'kind' = 'config_changed'"
    )
    assert waiting == 1


async def test_an_agent_that_cannot_follow_is_named_with_the_reason(
    world: World, agent: AgentHand
) -> None:
    await heartbeat(agent, 1)

    def swap(config: dict[str, Any]) -> None:
        config["models"]["better"] = config["models"].pop("default")
        for other in config["agents"].values():
            other["defaults"]["llm"] = "better"

    edit(world, swap)
    staged = await load(world)
    assert any("'default'" in warning for warning in staged["warnings"])
    report = (await apply(world))["report"]
    row = named(report, "main")
    assert row["state"] == "failed" and "'default'" in row["detail"] and row["version"] == 1
    # it continues with its current configuration
    await heartbeat(agent, 1)


async def test_a_new_agent_starts_without_a_restart_of_control(world: World) -> None:
    def add(config: dict[str, Any]) -> None:
        config["dms"]["third"] = {"gateway": "console", "user_id": "3"}
        defaults = {"workspace": "spare", "llm": "default", "dm": "third"}
        config["agents"]["third"] = {"defaults": defaults}

    edit(world, add)
    assert (await world.post("/v1/agents/third/start")).status_code == 404
    await load(world)
    await apply(world)
    started = await world.post("/v1/agents/third/start", json={})
    assert started.status_code == 200, started.text
    hand = await world.agent(2)
    assert hand.spec.agent_id == "third"
    await hand.begin()


async def test_a_removed_agent_goes_on_until_it_is_stopped(world: World, agent: AgentHand) -> None:
    edit(world, lambda c: c["agents"].pop("main"))
    staged = await load(world)
    assert any("main" in warning for warning in staged["warnings"])
    assert (await world.say("hello", "1")).note is None
    report = (await apply(world))["report"]
    assert "until it is stopped" in named(report, "main")["detail"]
    # its users hear of it, too
    told = await world.say("hello", "2")
    assert told.agent_state == "running"
    assert told.note is not None and "until an operator stops it" in told.note
    await heartbeat(agent, 1)
    answer = json.loads(await agent.call("FETCH_DYNAMIC_CONFIG", b'{"current_config_version": 1}'))
    assert answer["config_version"] == 2
    await heartbeat(agent, 2)
    report = (await world.get("/v1/config/report")).json()
    assert named(report, "main")["state"] == "applied"
    listed = {view["agent_id"] for view in (await world.get("/v1/agents")).json()["items"]}
    assert "main" in listed
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    async with agent.signals() as stream:
        async for told in stream:
            if told.body.kind == "shutdown":
                break
    await agent.call("TERMINATE_SELF", b'{"reason": "told to"}')
    assert (await stopping).status_code == 200
    assert (await world.post("/v1/agents/main/start")).status_code == 404
    # what comes now waits for the other agent that this conversation belongs to
    after = await world.say("hello", "3")
    assert (after.agent_id, after.agent_state) == ("never", "stopped") and after.note


async def test_what_cannot_be_stored_changes_nothing_and_stays_staged(world: World) -> None:
    edit(world, lambda c: c["agents"].update(third={**c["agents"]["other"]}))
    staged = await load(world)
    await world.database.execute(
        "ALTER TABLE choir_control.config_versions ADD CONSTRAINT full_disk CHECK (version < 2)"
    )
    failed = await world.post("/v1/config/apply")
    assert failed.status_code >= 500
    now = await running(world)
    assert (now["version"], now["staged"]) == (1, True)
    assert not world.settings.agent_socket_dir("third").joinpath("choir.sock").exists()
    await world.database.execute(
        "ALTER TABLE choir_control.config_versions DROP CONSTRAINT full_disk"
    )
    applied = await apply(world, digest=staged["digest"])
    assert applied["version"] > 1
    assert world.settings.agent_socket_dir("third").joinpath("choir.sock").exists()


async def test_a_socket_that_cannot_be_made_changes_nothing(world: World) -> None:
    long = "a" * 40
    edit(world, lambda c: c["agents"].update({long: {**c["agents"]["other"]}}))
    blocker = world.settings.agent_socket_dir(long)
    blocker.parent.mkdir(parents=True, exist_ok=True)
    blocker.write_text("a file where a directory should be")
    await load(world)
    failed = await world.post("/v1/config/apply")
    assert failed.status_code == 503 and long in failed.text
    assert ((await running(world))["version"], (await running(world))["staged"]) == (1, True)
    blocker.unlink()
    assert (await apply(world))["version"] == 2


async def test_the_same_file_applied_again_is_no_new_version(world: World) -> None:
    assert (await load(world))["changes"] == []
    assert (await apply(world))["version"] == 1


async def test_a_restart_with_a_broken_file_goes_on_with_the_last_good_one(world: World) -> None:
    edit(world, longer)
    await load(world)
    await apply(world)
    world.settings.config_file.write_text('{"agents": ')
    await world.stop()
    await world.start()
    now = await running(world)
    assert (now["version"], now["source"]) == (2, "last-good")
    assert "config.json" in now["note"]
    assert now["config"]["summary_timeout_ms"] == 31_000
    world.settings.config_file.write_text(json.dumps(a_config(world.home)))
    await load(world)
    await apply(world)
    assert (await running(world))["source"] == "file"


async def test_the_schema_is_published(world: World) -> None:
    assert (await world.get("/v1/config/schema")).json() == config_schema()


GATE = """
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END';
CREATE TRIGGER gate BEFORE INSERT ON choir_control.config_versions
    FOR EACH ROW EXECUTE FUNCTION gate();
"""


async def until_serving(world: World, process: Process) -> None:
    async def ready() -> bool:
        assert process.returncode is None
        try:
            return await world.is_ready()
        except Exception:
            return False

    await until(ready, 60)


@pytest.mark.nightly  # tests/faults/test_cuts.py cuts an apply at many lines
@pytest.mark.parametrize("cut", ["while the version is stored", "right after it is stored"])
async def test_killed_in_the_middle_of_an_apply_there_is_the_old_one_or_the_new_one(
    stopped: World, dsn: str, cut: str
) -> None:
    """A trigger stops the apply in its commit; choird is killed before it gets through, or just after."""
    edit(stopped, lambda c: c["agents"]["main"].update(autostart=False))
    first = await spawn(stopped)
    await until_serving(stopped, first)
    edit(stopped, longer)
    await load(stopped)
    await stopped.database.execute(GATE)
    held = await asyncpg.connect(dsn, password=stopped.secrets.postgres_password)
    try:
        await held.execute("SELECT pg_advisory_lock(4711)")
        applying = asyncio.create_task(stopped.post("/v1/config/apply"))

        async def waits() -> bool:
            return bool(
                await stopped.database.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                    "AND query LIKE '%INSERT INTO choir_control.config_versions%'"
                )
            )

        await until(waits)
        if cut.startswith("while"):
            os.kill(first.pid, signal.SIGKILL)
            await first.wait()
            await stopped.database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND application_name = 'choir-control'"
            )
            await held.execute("SELECT pg_advisory_unlock(4711)")
        else:
            os.kill(first.pid, signal.SIGSTOP)
            await held.execute("SELECT pg_advisory_unlock(4711)")

            async def stored() -> bool:
                return bool(
                    await held.fetchval("SELECT max(version) FROM choir_control.config_versions")
                    == 2
                )

            await until(stored)
            os.kill(first.pid, signal.SIGKILL)
            await first.wait()
        await asyncio.gather(applying, return_exceptions=True)
        # the file is broken meanwhile, so that what choird starts with is what it committed
        stopped.settings.config_file.write_text("{")
        second = await spawn(stopped)
        try:
            await until_serving(stopped, second)
            now = await running(stopped)
        finally:
            second.send_signal(signal.SIGTERM)
            await asyncio.wait_for(second.communicate(), 60)
        expected = (1, 30_000) if cut.startswith("while") else (2, 31_000)
        assert (now["version"], now["config"]["summary_timeout_ms"]) == expected
    finally:
        await held.close()
