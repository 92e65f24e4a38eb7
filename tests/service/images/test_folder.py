"""Images from a folder: an agent without a repository takes its tools and skills from a directory."""

import os
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.config import AgentConfig, AgentDefaults, Config
from choir_common.wire.operations import ToolChanges
from choir_control.agents.sessions.launch import LaunchImageResolver
from choir_control.configuration.current import ConfigSnapshot
from choir_control.images.build_service import BuildResult
from choir_control.images.repositories.survey import RepositorySurveyor
from choir_control.images.tool_check import ToolChecker, compare_tools
from tests.service.images.forge import ECHO, Forge, Told, a_manifest, a_skill

CONFIG = Config(
    agents={"main": AgentConfig(defaults=AgentDefaults(workspace="w", llm="m", dm="d"))},
    workspaces={},
)


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    """An installation whose agent has no repository."""
    made = Forge(tmp_path)
    made.configuration.current = ConfigSnapshot(1, CONFIG)
    return made


@pytest.fixture
def folder(forge: Forge) -> Path:
    """The agent's folder, with a tool, a skill and a soul."""
    top = forge.home / "agents/main"
    for name in ("tools", "skills", "identity", "choir"):
        (top / name).mkdir(parents=True)
    (top / "tools/roll.json").write_text(a_manifest("dice.roll"))
    (top / "tools/roll").write_text(ECHO % "rolled")
    (top / "tools/roll").chmod(0o755)
    (top / "skills/plan.json").write_text(a_skill("plan"))
    (top / "identity/SOUL.md").write_text("my soul")
    (top / "choir/SOUL.md").write_text("what Choir itself wrote here")
    return top


async def build(forge: Forge) -> BuildResult:
    return await forge.images.build("main", Told())


async def test_what_stands_in_the_folder_is_in_the_image_and_can_be_run(
    forge: Forge, folder: Path
) -> None:
    built = await build(forge)
    place = Path(built.image.place)
    assert os.access(place / "tools/agent/roll", os.X_OK)
    assert (place / "skills/plan.json").is_file()
    assert (place / "SOUL.md").read_text() == "my soul"
    assert built.image.version.agent_repo_commit and not built.image.version.global_repo_commit


async def test_the_same_files_are_the_same_image_and_other_files_another_one(
    forge: Forge, folder: Path
) -> None:
    first = await build(forge)
    (folder / "skills/plan.json").touch()
    again = await build(forge)
    assert not again.is_new and again.image == first.image
    (folder / "identity/SOUL.md").write_text("another soul")
    other = await build(forge)
    assert (
        other.is_new
        and other.image.version.agent_repo_commit != first.image.version.agent_repo_commit
    )
    (folder / "tools/roll").unlink()
    (folder / "tools/roll.json").unlink()
    without = await build(forge)
    assert not (Path(without.image.place) / "tools/agent/roll").exists()


async def test_a_folder_is_checked_as_a_repository_is(forge: Forge, folder: Path) -> None:
    surveyor = RepositorySurveyor(forge.mirrors, forge.home / "repos", compiles=False)
    survey = await surveyor.survey(CONFIG)
    assert list(survey.agent_repos) == ["main"] and survey.warnings == ()
    (folder / "tools/roll").chmod(0o644)
    for look in (build(forge), surveyor.survey(CONFIG)):
        with pytest.raises(InvalidRequest, match="tools/roll is not executable"):
            await look
    (folder / "tools/roll").unlink()
    (folder / "tools/roll").symlink_to("/bin/sh")
    with pytest.raises(InvalidRequest, match="symbolic link"):
        await build(forge)


async def test_tools_that_the_agent_would_not_load_leave_the_image_as_it_is(
    forge: Forge, folder: Path
) -> None:
    forge.tools = ToolChecker()
    forge.use(forge.builder)
    built = await build(forge)
    # no check of repositories refuses this: two names that models see as one
    (folder / "tools/again.json").write_text(a_manifest("dice.ro_ll"))
    (folder / "tools/same.json").write_text(a_manifest("dice.ro.ll"))
    for name in ("again", "same"):
        (folder / f"tools/{name}").write_text(ECHO % "x")
        (folder / f"tools/{name}").chmod(0o755)
    with pytest.raises(InvalidRequest, match=r"would not start.*same\.json:1: .*Rename one"):
        await build(forge)
    assert forge.shelf.get_current("main") == built.image
    for name in ("again", "again.json", "roll", "roll.json"):
        (folder / "tools" / name).unlink()
    changed = await build(forge)
    assert compare_tools(built.image, changed.image) == ToolChanges(
        new=("dice.ro.ll",), removed=("dice.roll",)
    )


async def test_an_agent_starts_without_what_was_never_built_of_its_folder(
    forge: Forge, folder: Path
) -> None:
    outfitter = LaunchImageResolver(
        home=forge.home,
        configuration=forge.configuration,  # type: ignore[arg-type]
        image_store=forge.shelf,
        builder=forge.builder,
    )
    assert (await outfitter.newest("main")).image is None
    built = await build(forge)
    assert (await outfitter.newest("main")).image == built.image


async def test_without_a_folder_the_refusal_of_a_build_names_it(forge: Forge) -> None:
    with pytest.raises(
        InvalidRequest, match="put tools/, skills/ or identity/ into .*/agents/main"
    ):
        await build(forge)
