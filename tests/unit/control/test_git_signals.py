"""Order of the signals that end git and what it has started."""

import asyncio
import os
from pathlib import Path

import pytest

from choir_control.images.repositories import git as git_module
from choir_control.images.repositories.git import Git

# Each process writes its name when it gets SIGTERM. The child of the first kind ends when git has ended.
GIT = """#!/bin/sh
cd {place}
(
    trap 'echo child >> signals; exit' TERM
    touch child
    while [ -e running ] || {child_stays}; do sleep 0.01; done
) &
trap 'echo git >> signals; rm running; exit 1' TERM
touch git
while :; do sleep 0.01; done
"""


async def cut_short(place: Path, *, child_stays: bool) -> list[str]:
    """Cancel a call of this git; return who got SIGTERM, in order."""
    program = place / "bin" / "git"
    program.parent.mkdir()
    program.write_text(GIT.format(place=place, child_stays="true" if child_stays else "false"))
    program.chmod(0o755)
    (place / "running").touch()
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    call = asyncio.create_task(Git(environment).run(place, "fetch", cwd=place))
    async with asyncio.timeout(60):
        while not ((place / "child").exists() and (place / "git").exists()):
            assert not call.done(), call.exception()
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait([call])
    return (place / "signals").read_text().split()


async def test_git_gets_the_signal_first_and_a_child_that_ends_with_it_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # long enough for a busy machine; the call waits for all of it if nothing reaps the child
    monkeypatch.setattr(git_module, "CHILDREN_GRACE_S", 15)
    assert await cut_short(tmp_path, child_stays=False) == ["git"]


async def test_a_child_that_outlives_git_gets_the_signal_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # on a busy machine the shell that stands in for git needs time to end
    monkeypatch.setattr(git_module, "CHILDREN_GRACE_S", 6)
    assert await cut_short(tmp_path, child_stays=True) == ["git", "child"]
