"""Skill folders in an agent: offered with an approved hash only, and narrowed by allowed-tools."""

import shutil
from pathlib import Path

import pytest

from choir_agent.log.session_state import SkillState
from choir_agent.prompt.skill_folder_list import SkillFolderList
from choir_agent.prompt.static_prompts import read_prompt_parts
from choir_agent.settings import CurrentSettings
from choir_agent.skills.current_step import tool_refusal
from choir_agent.skills.skill_folders import SkillFolders, allowed_tools, load_skill_folders
from choir_agent.tools.builtin.skill_folder import SkillFolderAccess, SkillReadTool, SkillRunTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.skill_folders.folder import read_skill_folder
from choir_control.images.image_files import write_files
from choir_control.images.merge import merge_repositories
from choir_control.images.repositories.content_checks import find_content_faults
from choir_control.images.repositories.tree import RepositoryTree, TreeEntry
from tests.service.agent.web_calls import SETTINGS
from tests.support.agent_fakes import silent_log
from tests.support.skill_folders import TOPICS, write_skill
from tests.unit.agent.told_session import ToldSession


def tree_of(top: Path) -> RepositoryTree:
    files = {
        path.relative_to(top).as_posix(): path for path in sorted(top.rglob("*")) if path.is_file()
    }
    return RepositoryTree(
        "c0ffee",
        top,
        {
            name: TreeEntry(name, "0", path.stat().st_size, bool(path.stat().st_mode & 0o111))
            for name, path in files.items()
        },
    )


@pytest.fixture(scope="module")
def choir_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A /choir that control built from a folder with twenty skills."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("choir")
    for number in range(len(TOPICS)):
        write_skill(source / "skills", number)
    tree = tree_of(source)
    assert not find_content_faults(tree, can_compile=False)
    write_files(merge_repositories(None, tree), built)
    return built


@pytest.fixture(scope="module")
def folders(choir_dir: Path) -> SkillFolders:
    return load_skill_folders(choir_dir)


def pins_of(choir_dir: Path) -> dict[str, str]:
    top = choir_dir / "skills/folders"
    return {path.name: read_skill_folder(path).sha256 for path in top.iterdir()}


def context(pins: dict[str, str]) -> CallContext:
    return CallContext("c", "edge", settings=SETTINGS.model_copy(update={"skills": pins}))


def test_all_twenty_are_offered_with_their_pins_and_none_without(
    choir_dir: Path, folders: SkillFolders
) -> None:
    pins = pins_of(choir_dir)
    assert [name for name, _ in folders.summaries(pins)] == sorted(TOPICS)
    assert folders.summaries({}) == []
    assert folders.summaries(dict.fromkeys(pins, "0" * 64)) == []
    with_none = read_prompt_parts(choir_dir).render().edge
    with_all = read_prompt_parts(choir_dir).render(folders.summaries(pins)).edge
    assert "Skill folders" not in with_none and "- letter-style: Help with" in with_all


async def test_a_removed_approval_leaves_the_next_prompt(
    choir_dir: Path, folders: SkillFolders
) -> None:
    session, parts = ToldSession(), read_prompt_parts(choir_dir)
    skills = SkillFolderList(session.assembler, parts, folders)
    session.ask(1, "hello")
    pins = pins_of(choir_dir)
    await skills.apply_settings(CurrentSettings(SETTINGS.model_copy(update={"skills": pins})))
    assert b"- letter-style: Help with" in session.edge().messages[0]
    del pins["letter-style"]
    await skills.apply_settings(CurrentSettings(SETTINGS.model_copy(update={"skills": pins})))
    listed = session.edge().messages[0]
    assert b"- letter-style:" not in listed and b"- csv-summary:" in listed


async def test_the_body_comes_on_demand_and_a_reference_by_its_name(
    choir_dir: Path, folders: SkillFolders
) -> None:
    reader = SkillReadTool(SkillFolderAccess(folders, silent_log()))
    call = context(pins_of(choir_dir))
    output = (await reader.run(call, {"skill": "meeting-notes"})).output
    assert str(output["text"]).startswith("# meeting-notes") and "references/RULES.md" in str(
        output
    )
    rules = await reader.run(call, {"skill": "meeting-notes", "path": "references/RULES.md"})
    assert str(rules.output["text"]).startswith("# Rules")
    for path in ("../csv-summary/SKILL.md", "/etc/passwd", "references/../SKILL.md", ""):
        with pytest.raises(ToolFailed) as failure:
            await reader.run(call, {"skill": "meeting-notes", "path": path})
        assert failure.value.kind == "not_found"
    for name in ("../folders/meeting-notes", "nothing", ""):
        with pytest.raises(ToolFailed) as failure:
            await reader.run(call, {"skill": name})
        assert failure.value.kind == "not_approved"


async def test_a_changed_file_or_a_removed_pin_counts_at_once(
    choir_dir: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "choir"
    shutil.copytree(choir_dir, copy)
    pins, reader = (
        pins_of(copy),
        SkillReadTool(SkillFolderAccess(load_skill_folders(copy), silent_log())),
    )
    await reader.run(context(pins), {"skill": "csv-summary"})
    script = copy / "skills/folders/csv-summary/scripts/count.py"
    script.chmod(0o644)
    script.write_text("import os")
    for now in (pins, {}):
        with pytest.raises(ToolFailed) as failure:
            await reader.run(context(now), {"skill": "csv-summary"})
        assert failure.value.kind == "not_approved"


async def test_a_script_runs_in_the_workspace_and_other_files_do_not(
    choir_dir: Path, folders: SkillFolders, tmp_path: Path
) -> None:
    access = SkillFolderAccess(folders, silent_log())
    runner = SkillRunTool(access, ProgramRunner(tmp_path, "/tmp"))
    call = context(pins_of(choir_dir))
    given = {"skill": "csv-summary", "script": "scripts/count.py", "stdin": "a\nb\n"}
    output = (await runner.run(call, {**given, "arguments": ["$(id)"]})).output
    assert (output["exit_code"], output["stdout"]) == (0, "lines: 2 $(id)\n"), output
    for script, kind in (("SKILL.md", "not_a_script"), ("../x", "not_found")):
        with pytest.raises(ToolFailed) as failure:
            await runner.run(call, {"skill": "csv-summary", "script": script})
        assert failure.value.kind == kind
    assert runner.manifest.runtime.flow.sends == "nothing" and not runner.manifest.runtime.network


async def test_allowed_tools_only_narrow(choir_dir: Path, folders: SkillFolders) -> None:
    spec = next(spec for spec in folders.narrow_skills(()) if spec.name == "photo-sorting")
    assert allowed_tools(read_skill_folder(folders.directory("photo-sorting")).front) == (
        "choir.skill.read", "choir.fs.read", "choir.fs.search", "choir.skill.run",
    )  # fmt: skip
    state = SkillState("edge", spec.name, "work", {}, {})
    assert tool_refusal(spec, state, "choir.fs.read", False) is None
    assert tool_refusal(spec, state, "choir.exec", False) is not None
    reader = SkillReadTool(SkillFolderAccess(folders, silent_log()))
    with pytest.raises(ToolFailed) as failure:
        await reader.run(context(pins_of(choir_dir)), {"skill": "photo-sorting"})
    assert failure.value.kind == "start_first"


def test_a_build_refuses_what_a_person_cannot_read_and_a_name_of_another(tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "skills", name="notes", body="a\u200bb")
    assert "invisible" in "".join(find_content_faults(tree_of(tmp_path), can_compile=False))
    (folder / "SKILL.md").write_text("---\nname: other\ndescription: x\n---\n")
    assert "other" in "".join(find_content_faults(tree_of(tmp_path), can_compile=False))
