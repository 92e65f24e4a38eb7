"""config load takes config.json and every repository as one: all of it is staged, or nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.control.test_configuration import apply, edit, load, longer, running
from tests.service.control.world import World, until
from tests.service.images.forge import ECHO, a_manifest, a_skill
from tests.support.repositories import GitRepository

TOOL = {"tools/say.json": a_manifest("house.say"), "tools/say": ECHO % "hello"}


@pytest.fixture
def shared(tmp_path: Path) -> GitRepository:
    """The global repository, with a tool and an identity."""
    repository = GitRepository(tmp_path / "global.git")
    repository.commit({**TOOL, "identity/SOUL.md": "soul"}, ("tools/say",))
    return repository


@pytest.fixture
def own(tmp_path: Path) -> GitRepository:
    """The repository of `main`."""
    repository = GitRepository(tmp_path / "main.git")
    repository.commit({"skills/tidy.json": a_skill("tidy"), "Dockerfile": "FROM choir-base\n"})
    return repository


def use(world: World, shared: GitRepository, own: GitRepository) -> None:
    """Name both repositories in config.json; `other` and `never` have only the global one."""

    def change(config: dict[str, Any]) -> None:
        config["global_repo"] = {"url": str(shared.path)}
        config["agents"]["main"]["repo"] = {"url": str(own.path)}

    edit(world, change)


async def build(world: World, agent_id: str) -> None:
    begun = await world.post(f"/v1/agents/{agent_id}/build")
    assert begun.status_code == 202, begun.text
    operation = begun.json()["operation_id"]

    async def done() -> bool:
        state: str = (await world.get(f"/v1/operations/{operation}")).json()["status"]
        assert state in ("running", "succeeded"), state
        return state == "succeeded"

    await until(done, 60)


async def in_force(world: World, shared: GitRepository, own: GitRepository) -> None:
    """Put both repositories in force, and build every agent's image."""
    use(world, shared, own)
    await load(world)
    await apply(world)
    for agent_id in ("main", "other", "never"):
        await build(world, agent_id)


def repos(staged: dict[str, Any]) -> dict[tuple[str, tuple[str, ...]], dict[str, Any]]:
    return {(repo["owner"], tuple(repo["agents"])): repo for repo in staged["repos"]}


def leftovers(world: World) -> list[str]:
    return [path.name for path in (world.home / "repos").glob(".scan-*")]


async def test_repositories_that_were_never_built_are_staged_with_their_commits(
    world: World, shared: GitRepository, own: GitRepository
) -> None:
    use(world, shared, own)
    found = repos(await load(world))
    assert set(found) == {("global", ("main", "never", "other")), ("main", ("main",))}
    mine = found["main", ("main",)]
    assert (mine["before"], mine["after"]) == (None, own.git("rev-parse", "main"))
    assert {(f["kind"], f["path"]) for f in mine["files"]} == {
        ("added", "skills/tidy.json"),
        ("added", "Dockerfile"),
    }
    assert mine["note"] == "use: choirctl agent build main"
    assert found["global", ("main", "never", "other")]["note"] == "use: choirctl agent update-all"
    assert leftovers(world) == []


async def test_a_new_commit_says_which_files_of_which_agents_and_what_to_do(
    world: World, shared: GitRepository, own: GitRepository
) -> None:
    await in_force(world, shared, own)
    assert (await load(world))["repos"] == []
    before = own.git("rev-parse", "main")
    after = own.commit({"skills/review.json": a_skill("review"), "Dockerfile": "FROM choir-base\n"})
    (change,) = (await load(world))["repos"]
    assert (change["owner"], change["agents"]) == ("main", ["main"])
    assert (change["before"], change["after"]) == (before, after)
    assert [(f["kind"], f["path"]) for f in change["files"]] == [
        ("added", "skills/review.json"),
        ("removed", "skills/tidy.json"),
    ]
    assert (change["category"], change["note"]) == (
        "restart-required",
        "use: choirctl agent update main",
    )
    # the operator's own choice: it is no part of an apply, and is said again until it is built
    await apply(world)
    assert len((await load(world))["repos"]) == 1
    await build(world, "main")
    assert (await world.get("/v1/config/diff")).json()["repos"] == []


@pytest.mark.nightly  # the test above tells whose files changed
async def test_agents_at_different_commits_of_the_global_repository_are_told_apart(
    world: World, shared: GitRepository, own: GitRepository
) -> None:
    await in_force(world, shared, own)
    first = shared.git("rev-parse", "main")
    second = shared.commit({**TOOL, "identity/SOUL.md": "second"}, ("tools/say",))
    await build(world, "other")
    third = shared.commit({**TOOL, "identity/SOUL.md": "third"}, ("tools/say",))
    found = repos(await load(world))
    assert {key: (repo["before"], repo["after"]) for key, repo in found.items()} == {
        ("global", ("main", "never")): (first, third),
        ("global", ("other",)): (second, third),
    }
    assert [f["path"] for f in found["global", ("other",)]["files"]] == ["identity/SOUL.md"]


BROKEN = (
    ({"tools/bad.json": "{}"}, "tools/bad.json: llm: Field required"),
    ({"tools/bad.json": a_manifest("my.bad")}, "nor a source directory tools/bad/"),
    ({"skills/bad.json": '{"name": "bad"}'}, "skills/bad.json: description"),
    ({"Dockerfile": "FROM choir-base\nRUNN apt-get\n"}, "Dockerfile: line 2: 'RUNN'"),
    ({"Dockerfile.base": "FROM debian\nRUN a \\\n"}, "Dockerfile.base: line 2"),
)


async def test_one_broken_repository_keeps_everything_from_being_staged(
    world: World, shared: GitRepository, own: GitRepository, subtests: pytest.Subtests
) -> None:
    use(world, shared, own)
    staged = await load(world)
    edit(world, longer)
    for files, says in BROKEN:
        with subtests.test(says):
            own.commit(files)
            refused = await world.post("/v1/config/load")
            assert refused.status_code == 400 and says in refused.json()["detail"], refused.text
            assert "the repository of main" in refused.json()["detail"]
            # what was staged before waits unchanged: neither the new file nor the new commit is in it
            waiting = (await world.get("/v1/config/diff")).json()
            assert (waiting["digest"], waiting["changes"]) == (staged["digest"], staged["changes"])
            assert leftovers(world) == []


async def test_all_that_is_wrong_anywhere_is_said_at_once(
    world: World, shared: GitRepository, own: GitRepository
) -> None:
    use(world, shared, own)
    shared.commit({"tools/one.json": "{"})
    own.commit({"skills/two.json": "["})
    edit(world, lambda c: c["agents"]["other"].update(repo={"url": "not an address"}))
    refused = (await world.post("/v1/config/load")).json()["detail"]
    assert "tools/one.json" in refused and "skills/two.json" in refused and "other" in refused
    assert not (await running(world))["staged"]


@pytest.mark.nightly  # the next test has the warning, the one above the commits
async def test_a_remote_that_is_away_is_a_warning_and_its_last_commit_counts(
    world: World, shared: GitRepository, own: GitRepository, tmp_path: Path
) -> None:
    await in_force(world, shared, own)
    own.commit({"skills/new.json": a_skill("new")})
    staged = await load(world)
    own.path.rename(tmp_path / "away")
    shared.commit({**TOOL, "identity/SOUL.md": "new"}, ("tools/say",))
    again = await load(world)
    (warning,) = again["warnings"]
    assert "repository of main" in warning and "stale" in warning
    found = repos(again)
    assert found["main", ("main",)]["stale"]
    assert found["main", ("main",)]["after"] == staged["repos"][0]["after"]
    assert not found["global", ("main", "never", "other")]["stale"]


async def test_a_repository_that_was_never_reached_is_a_warning_too(world: World) -> None:
    edit(world, lambda c: c["agents"]["main"].update(repo={"url": "/nowhere.git"}))
    staged = await load(world)
    (warning,) = staged["warnings"]
    assert "agents.main.repo" in warning and staged["repos"] == []
    assert (await apply(world, digest=staged["digest"]))["version"] == 2


async def test_what_was_shown_is_what_is_applied_commits_included(
    world: World, shared: GitRepository, own: GitRepository
) -> None:
    use(world, shared, own)
    shown = await load(world)
    own.commit({"skills/new.json": a_skill("new")})
    assert (await load(world))["digest"] != shown["digest"]
    refused = await world.post("/v1/config/apply", json={"digest": shown["digest"]})
    assert refused.status_code == 409
    assert (await running(world))["version"] == 1


CONCERNS: tuple[tuple[Callable[[dict[str, Any]], object], str, list[str]], ...] = (
    (
        lambda c: c["models"]["default"].update(temperature=0.1),
        "models.default.temperature",
        ["main", "never", "other"],
    ),
    (lambda c: c["dms"]["second"].update(admin=True), "dms.second.admin", ["other"]),
    (lambda c: c.update(event_window=60), "event_window", ["main", "never", "other"]),
    (lambda c: c["agents"]["other"].update(restart="never"), "agents.other.restart", ["other"]),
)


async def test_a_change_says_whom_it_concerns(world: World, subtests: pytest.Subtests) -> None:
    before = world.settings.config_file.read_text()
    for change, path, agents in CONCERNS:
        with subtests.test(path):
            world.settings.config_file.write_text(before)
            edit(world, change)
            (found,) = (await load(world))["changes"]
            assert (found["path"], found["agents"]) == (path, agents), json.dumps(found)
