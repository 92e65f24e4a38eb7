"""Images from real repositories: merged, cached by commit, refused when they drift, whole or not at all."""

import asyncio
import json
import os
import sys
from pathlib import Path
from types import FrameType

import pytest

from choir_common.errors import Conflict, InvalidRequest
from choir_common.identity_dir import read_version
from choir_common.wire.rpc import HelloRequest
from choir_control.agents.sessions.launch import LaunchImage, LaunchImageResolver
from choir_control.images.builder import BuildInput, ImageFile
from choir_control.images.directory_builder import DirectoryImageBuilder
from choir_control.images.image_store import ImageStore
from tests.service.images.forge import Forge, Told, a_manifest, a_skill
from tests.support.crash_injection import fork

EVERY = 1 if os.environ.get("CHOIR_TEST_EVERY_CUT") == "1" else 3
"""Of so many steps of a build, one is the last."""


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path)


def outfitter(forge: Forge) -> LaunchImageResolver:
    return LaunchImageResolver(
        home=forge.home,
        configuration=forge.configuration,  # type: ignore[arg-type]
        image_store=forge.shelf,
        builder=forge.builder,
    )


async def dress_in_newest(forge: Forge) -> LaunchImage:
    """Do what a start of a new session does."""
    mine = outfitter(forge)
    return await mine.prepare("main", await mine.newest("main"))


def files(top: Path) -> dict[str, str]:
    return {
        path.relative_to(top).as_posix(): path.read_text()
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }


async def test_an_agents_own_tools_skills_and_souls_stand_in_for_the_global_ones(
    forge: Forge,
) -> None:
    told = Told()
    built = await forge.images.build("main", told)
    found = files(Path(built.image.place))
    assert sorted(found) == [
        "SOUL-CORE.md", "SOUL.md", "USER.md",
        "skills/plan.json", "skills/tidy-mine.json",
        "tools/agent/say", "tools/agent/say.json", "tools/global/hum", "tools/global/hum.json",
        "version.json",
    ]  # fmt: skip
    assert (found["USER.md"], found["SOUL.md"]) == ("the user", "my soul")
    assert found["SOUL-CORE.md"] == "the house's core"
    assert json.loads(found["skills/tidy-mine.json"])["states"]["begin"]["objective"] == "mine"
    assert os.access(Path(built.image.place) / "tools/agent/say", os.X_OK)
    version = read_version(Path(built.image.place))
    assert version == built.image.version
    assert version.global_repo_commit == forge.shared.git("rev-parse", "main")
    assert version.agent_repo_commit == forge.own.git("rev-parse", "main")
    assert told.shares == sorted(told.shares) and told.shares[-1] == 1.0


async def test_a_build_without_a_new_commit_is_skipped(forge: Forge) -> None:
    first = await forge.images.build("main", Told())
    again = await forge.images.build("main", Told())
    assert first.is_new and not again.is_new and again.image == first.image
    forge.fill_own("another soul")
    third = await forge.images.build("main", Told())
    assert third.is_new and third.image.place != first.image.place
    assert (Path(first.image.place) / "SOUL.md").read_text() == "my soul"
    assert forge.shelf.get_current("main") == third.image


async def test_the_same_content_at_the_same_commits_is_the_same_image(
    forge: Forge, tmp_path: Path
) -> None:
    first = await forge.images.build("main", Told())
    (forge.home / "images/main/current.json").unlink()
    second = await forge.images.build("main", Told())
    assert second.is_new and second.image == first.image


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("tools/bad.json", "{}", "tools/bad.json"),
        ("tools/bad.json", a_manifest("my.bad"), "neither the program"),
        ("tools/bad.json", a_manifest("choir.fs.read"), "is reserved"),
        ("tools/bad.json", a_manifest("my.bad", exec_path="../../x"), "is outside"),
        ("tools/bad.json", a_manifest("my.bad", exec_path="/bin/sh"), "is outside"),
        ("tools/bad.json", a_manifest("house.say"), "already"),
        ("skills/bad.json", "[" * 9_000, "skills/bad.json"),
        ("skills/bad.json", '{"name": 1}', "skills/bad.json: name:"),
        ("skills/bad.json", a_skill("lost").replace('"to": "end"', '"to": "x"'), "leads to 'x'"),
        (
            "tools/say.json",
            a_manifest("house.say").replace('"type": "object"', '"type": 7'),
            "tools/say.json: llm.parameters: not a JSON Schema",
        ),
        ("Dockerfile", "RUN x\n", "must begin with FROM"),
    ],
)
async def test_contents_that_do_not_fit_are_named_and_the_old_image_stays(
    forge: Forge, path: str, text: str, says: str
) -> None:
    first = await forge.images.build("main", Told())
    forge.fill_own(**{path: text})
    with pytest.raises(InvalidRequest, match=says):
        await forge.images.build("main", Told())
    assert forge.shelf.get_current("main") == first.image
    assert await forge.builder.find_drift(first.image) is None
    assert list((forge.home / "images/.staging").iterdir()) == []


async def test_a_tool_that_must_be_compiled_is_refused_by_the_process_runtime(forge: Forge) -> None:
    forge.fill_own(**{"tools/c.json": a_manifest("my.c"), "tools/c/main.c": "int main(){}"})
    with pytest.raises(InvalidRequest, match="compiles nothing"):
        await forge.images.build("main", Told())


async def test_what_a_dockerfile_asks_for_and_a_process_does_not_get_is_named_in_the_result(
    forge: Forge,
) -> None:
    forge.own.commit({"Dockerfile": "FROM choir-base\n"})
    assert (await forge.images.build("main", Told())).warnings == ()
    forge.shared.commit({"Dockerfile.base": "FROM debian\nRUN apt-get install -y \\\n cowsay\n"})
    forge.own.commit({"Dockerfile": "FROM choir-base\nENV GREETING=moo\n"})
    told = Told()
    [warning] = (await forge.images.build("main", told)).warnings
    assert f"warning: {warning}" in told.lines
    assert (
        "Dockerfile.base of the global repository, line 2: RUN apt-get install -y cowsay" in warning
    )
    assert "Dockerfile of the repository of main, line 2: ENV GREETING=moo" in warning
    assert "CHOIR_RUNTIME=docker" in warning
    again = await forge.images.build("main", Told())
    assert not again.is_new and again.warnings == (warning,)


async def test_what_a_killed_build_left_behind_is_removed_by_the_next(forge: Forge) -> None:
    left = forge.home / "images/.staging/main.dead/own/tools"
    left.mkdir(parents=True)
    await forge.images.build("main", Told())
    assert list((forge.home / "images/.staging").iterdir()) == []


async def test_a_remote_that_is_away_builds_from_the_stale_clone_and_says_so(
    forge: Forge, tmp_path: Path
) -> None:
    first = await forge.images.build("main", Told())
    forge.own.path.rename(tmp_path / "away")
    forge.fill_shared(identity__USER="x")
    again = await forge.images.build("main", Told())
    assert again.is_new and len(again.warnings) == 1 and "stale" in again.warnings[0]
    assert again.image.version.agent_repo_commit == first.image.version.agent_repo_commit


async def test_an_agent_with_a_repository_and_no_image_is_told_to_build(forge: Forge) -> None:
    with pytest.raises(Conflict, match="choirctl agent build main"):
        await outfitter(forge).newest("main")
    await forge.images.build("main", Told())
    outfit = await dress_in_newest(forge)
    assert (outfit.choir_dir / "SOUL.md").read_text() == "my soul"


@pytest.mark.parametrize(
    "path", ["tools/agent/say", "skills/plan.json", "SOUL.md", "version.json", "tools/agent/new"]
)
async def test_an_image_that_was_changed_is_refused_and_built_again(
    forge: Forge, path: str
) -> None:
    built = await forge.images.build("main", Told())
    target = Path(built.image.place) / path
    target.unlink(missing_ok=True)
    target.write_text("changed")
    with pytest.raises(Conflict, match="differs from what was built"):
        await dress_in_newest(forge)
    mended = await forge.images.build("main", Told())
    assert mended.is_new and mended.image == built.image
    wanted = await outfitter(forge).newest("main")
    assert wanted.image == mended.image
    await outfitter(forge).check("main", wanted)


async def test_an_agent_that_runs_something_else_is_refused_at_its_greeting(forge: Forge) -> None:
    version = (await forge.images.build("main", Told())).image.version
    await dress_in_newest(forge)
    right = {
        "image_version": version.image_version,
        "tool_manifest_hash": version.tool_manifest_hash,
        "skill_manifest_hash": version.skill_manifest_hash,
    }
    forge.shelf.check_hello(HelloRequest(agent_id="main", session_id="s", epoch=1, **right))
    for name in right:
        with pytest.raises(InvalidRequest, match=name):
            forge.shelf.check_hello(
                HelloRequest(agent_id="main", session_id="s", epoch=1, **{**right, name: "other"})
            )


def _build_and_shelve(home: Path, soul: bytes) -> None:
    pieces = (ImageFile("SOUL.md", soul), ImageFile("tools/agent/a", b"#!/bin/sh\n", True))
    ImageStore(home).set_current(
        DirectoryImageBuilder(home).write_image(BuildInput("main", pieces, None, None))
    )


def _dies_at(step: int, home: Path) -> bool:
    """Build in a process that is gone at its `step`-th line of the image room; tell whether it was."""
    child = fork()
    if child == 0:
        seen = 0

        def trace(frame: FrameType, event: str, _: object) -> object:
            nonlocal seen
            if "choir_control/images/" not in frame.f_code.co_filename:
                return None
            seen += event == "line"
            if seen == step:
                os._exit(9)
            return trace

        sys.settrace(trace)  # type: ignore[arg-type]
        _build_and_shelve(home, b"new")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_build_that_dies_at_any_step_leaves_the_old_image_or_the_new_one(tmp_path: Path) -> None:
    """Row R12: the build and its last step, the label."""
    step, outcomes = 0, []
    while True:
        step += EVERY
        home = tmp_path / str(step)
        _build_and_shelve(home, b"old")
        died = _dies_at(step, home)
        image = ImageStore(home).get_current("main")
        assert image is not None
        outcomes.append((Path(image.place) / "SOUL.md").read_text())
        assert outcomes[-1] in ("old", "new"), step
        _build_and_shelve(home, b"next")
        after = ImageStore(home).get_current("main")
        assert after is not None and (Path(after.place) / "SOUL.md").read_text() == "next"
        assert not [path.name for path in (home / "images/main").glob(".new-*")]
        if not died:
            break
    assert step > 20 and outcomes[0] == "old" and outcomes[-1] == "new"


CUTS = (1, 3, 8, 15, 25, 40, 60, 90, 130, 170, 210, 250, 300, 360, 430, 520, 640, 800, 1_000, 1_300)


def _pipeline_dies_at(step: int, forge: Forge) -> bool:
    """Fetch, merge and build in a process that is gone at its `step`-th touch; tell whether it was."""
    child = fork()
    if child == 0:
        seen = 0

        def count(event: str, _: object) -> None:
            nonlocal seen
            if event.startswith(("os.", "open", "shutil.", "subprocess.")):
                seen += 1
                if seen == step:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            asyncio.run(forge.images.build("main", Told()))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_fetch_a_merge_and_a_build_that_die_anywhere_leave_the_old_or_the_new(
    tmp_path: Path,
) -> None:
    """Row R12, the whole way: at points all along it, over one and the same mirror."""
    forge = Forge(tmp_path)
    asyncio.run(forge.images.build("main", Told()))
    died = 0
    for number, step in enumerate(CUTS):
        old = forge.shelf.get_current("main")
        assert old is not None
        soul = f"soul {number}"
        forge.fill_own(soul)
        cut = _pipeline_dies_at(step, forge)
        died += cut
        after = forge.shelf.get_current("main")
        assert after is not None and asyncio.run(forge.builder.find_drift(after)) is None, step
        if after != old:
            assert (Path(after.place) / "SOUL.md").read_text() == soul
        assert cut or after != old, step
        built = asyncio.run(forge.images.build("main", Told()))
        assert not built.warnings, step
        assert (Path(built.image.place) / "SOUL.md").read_text() == soul
        if not cut:
            break
    assert died >= 6
