"""Old images go, and what somebody may still need stays: the current one, the one before, what runs."""

import asyncio
from pathlib import Path

import pytest

from choir_common.errors import Unavailable
from choir_control.images.build_service import BuildResult
from tests.service.images.forge import Forge, Told


async def build(forge: Forge, soul: str, told: Told | None = None) -> BuildResult:
    """Commit another soul and build it."""
    await asyncio.to_thread(forge.fill_own, soul)
    return await forge.images.build("main", told or Told())


def there(forge: Forge) -> set[str]:
    """Return the versions that lie on the shelf."""
    shelf = forge.home / "images/main"
    return {path.name for path in shelf.iterdir() if path.is_dir()}


def versions(*built: BuildResult) -> set[str]:
    return {one.image.version.image_version for one in built}


async def test_the_current_image_the_one_before_and_what_runs_stay(tmp_path: Path) -> None:
    forge, told = Forge(tmp_path), Told()
    runs = await build(forge, "one")
    forge.shelf.set_running("main", runs.image.version)
    forgotten = await build(forge, "two")
    before = await build(forge, "three")
    assert there(forge) == versions(runs, forgotten, before)
    current = await build(forge, "four", told)
    assert there(forge) == versions(runs, before, current)
    removed = forgotten.image.version.image_version
    assert any(removed in line for line in told.lines)
    # once it runs no longer, the next build removes it
    forge.shelf.set_running("main", current.image.version)
    last = await build(forge, "five")
    assert there(forge) == versions(current, last)


async def test_going_back_keeps_what_one_came_from(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    good = await build(forge, "good")
    bad = await build(forge, "bad")
    forge.shelf.set_current(good.image)
    assert forge.shelf.needed_versions("main") == versions(good, bad)
    # the very same again changes nothing
    forge.shelf.set_current(good.image)
    assert forge.shelf.needed_versions("main") == versions(good, bad)


async def test_a_build_counts_though_the_old_image_cannot_be_removed(
    tmp_path: Path,
) -> None:
    class Stuck(Forge):
        async def refuse(self, agent_id: str, needed: frozenset[str]) -> tuple[str, ...]:
            raise Unavailable("the disk sleeps")

    forge, told = Stuck(tmp_path), Told()
    forge.builder.remove_unneeded = forge.refuse  # type: ignore[method-assign,assignment]
    built = await build(forge, "one", told)
    assert forge.shelf.get_current("main") == built.image
    assert "warning: the disk sleeps" in told.lines


@pytest.mark.parametrize("name", [".new-1", ".aside-1"])
async def test_what_a_dead_build_left_behind_goes_too(tmp_path: Path, name: str) -> None:
    forge = Forge(tmp_path)
    await build(forge, "one")
    (forge.home / "images/main" / name).mkdir()
    built = await build(forge, "two")
    assert name not in there(forge)
    assert forge.shelf.get_current("main") == built.image
