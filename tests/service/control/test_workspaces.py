"""A workspace has one holder, and is emptied only once that one has stopped."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from choir_control.workspaces.traps import TrapReport
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_configuration import apply, edit, load
from tests.service.control.test_sessions import leases
from tests.service.control.world import World, a_config, until


def path_of(world: World, name: str = "main") -> Path:
    return world.home / "workspaces" / name


def fill(world: World, name: str = "main") -> Path:
    """Put something into a workspace."""
    place = path_of(world, name)
    (place / "project").mkdir(parents=True)
    (place / "project/notes.txt").write_text("words")
    return place


async def shown(world: World) -> dict[str, Any]:
    items = (await world.get("/v1/workspaces")).json()["items"]
    return {item["name"]: item for item in items}


async def reset(world: World, name: str, **more: Any) -> httpx2.Response:
    return await world.post(f"/v1/workspaces/{name}/reset", json={"confirm": name, **more})


async def end_of(world: World, begun: httpx2.Response) -> dict[str, Any]:
    """Return how a reset ended."""
    assert begun.status_code == 202, begun.text
    view: dict[str, Any] = {}

    async def over() -> bool:
        view.update((await world.get(f"/v1/operations/{begun.json()['operation_id']}")).json())
        return view["status"] != "running"

    await until(over, 60)
    return view


async def reset_while_it_runs(world: World, agent: AgentHand, **more: Any) -> dict[str, Any]:
    """Reset `main` whose agent obeys its shutdown signal; return what was done."""
    begun = await reset(world, "main", **more)
    assert (await agent.next_signal()).body.kind == "shutdown"
    assert (path_of(world) / "project").exists()
    await agent.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)
    ended = await end_of(world, begun)
    assert ended["status"] == "succeeded", ended
    done: dict[str, Any] = ended["result"]
    return done


async def test_workspaces_are_listed_with_their_holders(world: World, agent: AgentHand) -> None:
    fill(world)
    found = await shown(world)
    main, spare = found["main"], found["spare"]
    assert (main["agent_id"], main["session_id"]) == ("main", agent.spec.session_id)
    assert (main["files"], main["size"], main["complete"]) == (1, 5, True)
    assert (spare["agent_id"], spare["exists"]) == (None, False)


async def test_traps_of_an_agent_are_disabled_in_its_own_workspace(
    world: World, agent: AgentHand
) -> None:
    lay_trap(path_of(world) / "repo")
    await agent.reply("done")
    await until_found(
        world,
        TrapReport(changes=("repo/.git/config",), disabled=("repo/.git/config.disabled-by-choir",)),
    )
    main = (await shown(world))["main"]
    assert (main["disabled"], main["traps"]) == (["repo/.git/config.disabled-by-choir"], [])


async def until_found(world: World, report: TrapReport) -> None:
    """Search until this is found: a search rests for a multiple of the time that the one before took."""
    assert world.control is not None
    traps = world.control.services.sessions.traps

    async def is_found() -> bool:
        await traps.sweep()
        return traps.report("main") == report

    await until(is_found, within=60)


async def test_traps_in_a_directory_of_the_owner_are_named_only(
    world: World, agent: AgentHand, tmp_path: Path
) -> None:
    lay_trap(tmp_path / "repo")
    shutil.rmtree(path_of(world), ignore_errors=True)
    path_of(world).symlink_to(tmp_path)
    await agent.reply("one")
    await until_found(world, TrapReport(warnings=("repo/.git/config",)))
    (tmp_path / ".envrc").write_text("x")
    await agent.reply("two")
    await until_found(world, TrapReport(warnings=(".envrc", "repo/.git/config")))
    assert (await shown(world))["main"]["traps"] == [".envrc", "repo/.git/config"]


async def test_the_user_is_told_once_that_a_workspace_is_over_its_limit(
    world: World, agent: AgentHand
) -> None:
    edit(world, lambda config: config["workspaces"]["main"].update(limits={"mb": 1, "files": 2}))
    await load(world)
    await apply(world)
    place = fill(world)
    (place / "large").write_bytes(b"x" * 3_000_000)
    assert world.control is not None
    usage = world.control.services.sessions.usage
    await agent.reply("reply 0")

    async def is_measured() -> bool:
        # the measurement at the start may be too recent to be repeated
        await usage.sweep()
        return bool(usage.excess("main"))

    await until(is_measured)
    for number in range(1, 3):
        await agent.reply(f"reply {number}")
        await usage.sweep()
    excess = "main has 3 MB (limit: 1 MB) and 3 files and directories (limit: 2)"
    assert (await world.get("/v1/status")).json()["full_workspaces"] == [excess]
    assert (await shown(world))["main"]["excess"] == excess.removeprefix("main ")
    said = [text for text in await world.delivered(4) if "workspaces.main.limits" in text]
    assert len(said) == 1 and excess in said[0]


def lay_trap(folder: Path) -> None:
    """Make a repository whose `git status` runs a command."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "config", "core.fsmonitor", "false"], check=True)


async def test_a_reset_stops_the_holder_and_does_not_start_it_again(
    world: World, agent: AgentHand
) -> None:
    place = fill(world)
    done = await reset_while_it_runs(world, agent)
    assert (done["removed"], done["stopped"], done["restarted"]) == (2, "main", False)
    assert list(place.iterdir()) == [] and await leases(world) == {}
    assert (await world.get("/v1/agents/main")).json()["state"] == "stopped"


async def test_a_reset_starts_the_holder_again_if_it_is_told_to(
    world: World, agent: AgentHand
) -> None:
    fill(world)
    done = await reset_while_it_runs(world, agent, restart=True)
    assert done["restarted"]
    fresh = await world.agent(2)
    assert fresh.spec.session_id != agent.spec.session_id
    assert (await leases(world))["workspace:main"] == "main"


async def test_a_reset_needs_the_name_and_a_workspace_that_exists(world: World) -> None:
    place = fill(world, "spare")
    answers = [
        await world.post("/v1/workspaces/spare/reset", json={"confirm": "yes"}),
        await world.post("/v1/workspaces/spare/reset", json={}),
        await reset(world, "nowhere"),
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 404]
    assert (place / "project").exists()
    ended = await end_of(world, await reset(world, "spare"))
    assert (ended["subject"], ended["result"]["stopped"]) == ("spare", None)
    assert list(place.iterdir()) == []


async def test_nobody_starts_in_a_workspace_while_it_is_emptied(world: World) -> None:
    await world.database.execute(
        "INSERT INTO choir_control.leases (resource, agent_id) "
        "VALUES ('workspace:spare', 'a workspace reset')"
    )
    refused = await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert refused.status_code == 409
    assert "in use by a workspace reset; wait" in refused.json()["detail"]
    ended = await end_of(world, await reset(world, "spare"))
    assert (ended["status"], ended["error_code"]) == ("failed", "conflict")
    assert (await shown(world))["spare"]["agent_id"] is None


async def test_what_a_dead_control_held_is_free_when_the_next_one_starts(world: World) -> None:
    await world.database.execute(
        "INSERT INTO choir_control.leases (resource, session_id, agent_id) "
        "VALUES ('workspace:spare', NULL, 'a workspace reset')"
    )
    gone = (await world.get("/v1/agents/main")).json()["session_id"]
    await world.stop()
    # as if a crash had freed the token and not the leases
    await world.database.execute(
        "UPDATE choir_control.sessions SET status = 'crashed', token_sha256 = NULL, "
        "resume_at = NULL WHERE session_id = $1",
        gone,
    )
    await world.start()
    assert await leases(world) == {}


@pytest.mark.parametrize("path", ["/", "HOME", "STATE", "STATE/data"])
async def test_what_is_no_workspace_is_never_emptied(stopped: World, path: str) -> None:
    real = path.replace("HOME", str(Path.home())).replace("STATE", str(stopped.home))
    config = a_config(stopped.home)
    config["workspaces"] = {"spare": {"path": real}}
    for one in config["agents"].values():
        one["defaults"]["workspace"] = "spare"
        one["autostart"] = False
    stopped.settings.config_file.write_text(json.dumps(config))
    await stopped.start()
    refused = await reset(stopped, "spare")
    assert refused.status_code == 409 and "cannot be emptied" in refused.json()["detail"]
    assert stopped.settings.config_file.exists()


async def test_a_reset_says_how_far_it_is(world: World) -> None:
    place = path_of(world, "spare")
    place.mkdir(parents=True)
    for number in range(2_500):
        (place / f"{number}.txt").touch()
    begun = await reset(world, "spare")
    ended = await end_of(world, begun)
    heard = await world.get(f"/v1/operations/{begun.json()['operation_id']}/events")
    said = [json.loads(line[6:]) for line in heard.text.splitlines() if line.startswith("data: ")]
    steps = [(one["text"], one["share"]) for one in said if one.get("kind") == "step"]
    assert ("0 of 2,500 entries deleted", 0.0) in steps
    assert ("1,000 of 2,500 entries deleted", 0.4) in steps
    assert ended["step"] == "2,500 of 2,500 entries deleted"


async def test_a_workspace_that_a_file_stands_in_the_place_of_is_refused(world: World) -> None:
    place = path_of(world, "spare")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("x")
    ended = await end_of(world, await reset(world, "spare"))
    assert (ended["status"], ended["error_code"]) == ("failed", "unavailable")
    assert place.read_text() == "x" and "workspace:spare" not in await leases(world)
