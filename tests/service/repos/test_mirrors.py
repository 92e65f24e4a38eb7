"""Mirrors of real git repositories: fetched, read, stale, and repaired."""

import os
from pathlib import Path

import pytest

from choir_common.errors import Unavailable
from choir_common.wire.config import RepoConfig
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.source import RepositorySource, parse_source
from tests.support.repositories import GitRepository


@pytest.fixture
def remote(tmp_path: Path) -> GitRepository:
    """A repository with a tool."""
    repository = GitRepository(tmp_path / "remote.git")
    repository.commit({"tools/a.json": "{}", "tools/a": "#!/bin/sh\n"}, ("tools/a",))
    return repository


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    """The mirrors of a new installation."""
    return Mirrors(tmp_path / "home", os.environ)


def source(repository: GitRepository, ref: str = "main") -> RepositorySource:
    found = parse_source("main", RepoConfig(url=str(repository.path), ref=ref))
    assert found is not None
    return found


async def test_a_commit_is_fetched_and_its_files_written(
    mirrors: Mirrors, remote: GitRepository, tmp_path: Path
) -> None:
    fetched = await mirrors.fetch(source(remote))
    assert fetched.commit == remote.git("rev-parse", "main") and not fetched.is_stale
    tree = await mirrors.write_files(fetched, tmp_path / "out")
    assert sorted(tree.files) == ["tools/a", "tools/a.json"]
    assert tree.read("tools/a") == b"#!/bin/sh\n"
    assert os.access(tree.root / "tools/a", os.X_OK)
    assert not os.access(tree.root / "tools/a.json", os.X_OK)


async def test_the_next_fetch_follows_the_branch_even_when_it_was_rewritten(
    mirrors: Mirrors, remote: GitRepository
) -> None:
    first = await mirrors.fetch(source(remote))
    second_commit = remote.commit({"other": "1"})
    second = await mirrors.fetch(source(remote))
    assert second.commit == second_commit != first.commit
    assert await mirrors.last_commit(source(remote)) == second_commit


async def test_a_tag_and_a_commit_can_be_followed_too(
    mirrors: Mirrors, remote: GitRepository
) -> None:
    first = remote.git("rev-parse", "main")
    remote.git("tag", "-a", "v1", "-m", "one", first)
    remote.git("config", "uploadpack.allowAnySHA1InWant", "true")
    remote.commit({"other": "1"})
    assert (await mirrors.fetch(source(remote, "v1"))).commit == first
    assert (await mirrors.fetch(source(remote, first))).commit == first


async def test_a_remote_that_is_away_leaves_the_last_commit_with_a_warning(
    mirrors: Mirrors, remote: GitRepository, tmp_path: Path
) -> None:
    first = await mirrors.fetch(source(remote))
    remote.path.rename(tmp_path / "moved")
    again = await mirrors.fetch(source(remote))
    assert again.is_stale and again.commit == first.commit
    assert again.warning is not None and "the repository of main" in again.warning


async def test_another_address_is_never_answered_with_the_commit_of_the_old_one(
    mirrors: Mirrors, remote: GitRepository, tmp_path: Path
) -> None:
    await mirrors.fetch(source(remote))
    elsewhere = parse_source("main", RepoConfig(url=str(tmp_path / "nowhere.git")))
    assert elsewhere is not None
    with pytest.raises(Unavailable, match="no earlier clone"):
        await mirrors.fetch(elsewhere)


async def test_what_a_killed_git_left_behind_does_not_stop_the_next_one(
    mirrors: Mirrors, remote: GitRepository
) -> None:
    await mirrors.fetch(source(remote))
    mirror = mirrors.directory_of("main")
    (mirror / "shallow.lock").touch()
    (mirror / f"{source(remote).local_ref}.lock").touch()
    (mirror / "objects/pack/tmp_pack_x").write_bytes(b"half")
    newest = remote.commit({"other": "1"})
    fetched = await mirrors.fetch(source(remote))
    assert fetched.commit == newest and not fetched.is_stale
    assert not (mirror / "objects/pack/tmp_pack_x").exists()


async def test_a_broken_mirror_is_made_anew(mirrors: Mirrors, remote: GitRepository) -> None:
    await mirrors.fetch(source(remote))
    (mirrors.directory_of("main") / "HEAD").unlink()
    fetched = await mirrors.fetch(source(remote))
    assert fetched.commit == remote.git("rev-parse", "main") and not fetched.is_stale


async def test_a_directory_that_is_no_mirror_is_left_alone(
    mirrors: Mirrors, remote: GitRepository
) -> None:
    there = mirrors.directory_of("main")
    (there / "identity").mkdir(parents=True)
    (there / "identity/SOUL.md").write_text("mine")
    with pytest.raises(Unavailable, match="move it away"):
        await mirrors.fetch(source(remote))
    assert (there / "identity/SOUL.md").read_text() == "mine"


def test_an_agent_without_an_address_has_no_repository() -> None:
    assert parse_source("main", RepoConfig()) is None and parse_source("main", None) is None
