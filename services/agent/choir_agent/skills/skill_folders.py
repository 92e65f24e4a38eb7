"""Skill folders of this agent: folders with a SKILL.md in /choir, offered while their hash is approved.

The settings hold the approved hashes. A folder is read and hashed again at each use, so a change of its files
or of the approval counts at once. See decision 98.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import structlog

from choir_agent.skills.skill_spec import SkillSpec, StateSpec, Transition
from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.identity_dir import SKILL_FOLDERS_DIR
from choir_common.skill_folders.folder import SkillFolder, read_skill_folder
from choir_common.skill_folders.front_matter import FrontMatter

log = structlog.get_logger("choir.agent.skills")

READ_TOOL = "choir.skill.read"
RUN_TOOL = "choir.skill.run"
MAX_FOLDERS = 200
MAX_STEPS = 40

# Names of the published format, by what they are here. A shell cannot be kept to a pattern such as
# `Bash(git:*)`, so that stands for the scripts of the skill alone.
TOOLS_BY_PUBLISHED_NAME: Mapping[str, tuple[str, ...]] = {
    "Bash": ("choir.exec", RUN_TOOL),
    "Read": ("choir.fs.read",),
    "Write": ("choir.fs.write",),
    "Edit": ("choir.fs.write",),
    "Grep": ("choir.fs.search",),
    "Glob": ("choir.fs.search",),
    "WebFetch": ("choir.web.browse",),
    "WebSearch": ("choir.web.search",),
}


class SkillFolders:
    """The skill folders below a directory, as they were at startup, and their present contents."""

    def __init__(self, top: Path, startup: Mapping[str, SkillFolder]) -> None:
        self._top = top
        self._startup = startup

    def __bool__(self) -> bool:
        return bool(self._startup)

    def approved(self, pins: Mapping[str, str]) -> Iterator[SkillFolder]:
        """Yield the folders with approved hashes, by name, as they were at startup."""
        for name, folder in self._startup.items():
            if pins.get(name) == folder.sha256:
                yield folder

    def summaries(self, pins: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return name and description of each approved folder, for the system prompt."""
        return [(folder.name, folder.front.description) for folder in self.approved(pins)]

    def directory(self, name: str) -> Path:
        """Return where the files of a folder are."""
        return self._top / name

    def read(self, name: str, pins: Mapping[str, str]) -> SkillFolder | None:
        """Return an approved folder with its present files, or None. Blocks.

        None as well for one that is unknown, or has changed since its approval.
        """
        if name not in self._startup or name not in pins:
            return None
        try:
            folder = read_skill_folder(self._top / name)
        except InvalidRequest as error:
            log.warning("a skill folder is invalid now", skill=name, error=error.message)
            return None
        return folder if folder.sha256 == pins[name] else None

    def narrow_skills(self, machines: Collection[str]) -> list[SkillSpec]:
        """Return a state machine for each folder with `allowed-tools`, which limits its work to them."""
        return [
            _narrow_skill(folder.front)
            for name, folder in self._startup.items()
            if folder.front.allowed_tools is not None and name not in machines
        ]


def load_skill_folders(choir_dir: Path, machines: Collection[str] = ()) -> SkillFolders:
    """Read the skill folders of /choir. Blocks: call it at startup only.

    An invalid one, or one with the name of a state machine, is left out: nobody may have approved it, so it
    must not stop the agent.
    """
    top = choir_dir / SKILL_FOLDERS_DIR
    folders: dict[str, SkillFolder] = {}
    try:
        paths = sorted(path for path in top.iterdir() if path.is_dir())[:MAX_FOLDERS]
    except OSError:
        return SkillFolders(top, {})
    for path in paths:
        try:
            folder = read_skill_folder(path)
            if folder.name != path.name or folder.name in machines:
                raise InvalidRequest(
                    _("Its name is that of another folder, or of a state machine.")
                )
        except InvalidRequest as error:
            log.warning("a skill folder is left out", skill=path.name, error=error.message)
            continue
        folders[folder.name] = folder
    return SkillFolders(top, folders)


def allowed_tools(front: FrontMatter) -> tuple[str, ...] | None:
    """Return the canonical names of the only tools for a skill, or None if it names none.

    Names that mean nothing here are left out: the list only ever narrows.
    """
    if front.allowed_tools is None:
        return None
    tools = [READ_TOOL]
    for name in front.allowed_tools:
        plain, bracket, _ = name.partition("(")
        if bracket:
            tools += [RUN_TOOL] if plain == "Bash" else []
        elif "." in plain:
            tools.append(plain)
        else:
            tools += TOOLS_BY_PUBLISHED_NAME.get(plain, ())
    return tuple(dict.fromkeys(tools))


def _narrow_skill(front: FrontMatter) -> SkillSpec:
    work = StateSpec(
        objective=f"Do what the user asked, by the instructions that {READ_TOOL} returns.",
        allowed_tools=allowed_tools(front) or (),
        transitions=(Transition("done", "done"),),
    )
    return SkillSpec(
        name=front.name,
        # Never in the prompt from here: the list of approved folders has it.
        description="",
        initial_state="work",
        states={"work": work, "done": StateSpec(terminal=True)},
        max_steps=MAX_STEPS,
        is_listed=False,
    )
