"""Skill folders of this installation: their pins in config.json, and their files in the agents' folders."""

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.skill_folders.folder import SkillFolder, read_skill_folder
from choir_common.skill_folders.front_matter import SKILL_FILE
from choir_common.wire.config import Config
from choirctl.start.config_set import set_value

SKILLS = "skills"
SkillState = Literal["approved", "changed", "missing", "invalid", "not approved", "in repository"]


@dataclass(frozen=True, slots=True)
class InstalledSkill:
    """A skill folder of one agent."""

    name: str
    agent: str
    state: SkillState
    sha256: str
    """The approved hash; empty without an approval."""
    description: str
    note: str = ""


class InstalledSkills:
    """The skill folders below a state directory."""

    def __init__(self, home: Path, config: Config) -> None:
        self._home, self._config = home, config

    def folder(self, agent: str, name: str) -> Path:
        """Return where the files of an agent's skill are."""
        return self._home / "agents" / agent / SKILLS / name

    def has_repository(self, agent: str) -> bool:
        """Return whether the agent's files come from its repository, so that its folder is not read."""
        repo = self._config.agents[agent].repo
        return repo is not None and bool(repo.url.strip())

    def list_all(self) -> list[InstalledSkill]:
        """Return the skills of all agents, sorted. Blocks."""
        return [
            self._describe(agent, name)
            for agent in sorted(self._config.agents)
            for name in sorted(self._names(agent))
        ]

    def find_agents(self, name: str) -> list[str]:
        """Return the agents that have a skill; raises NotFound if there is none."""
        agents = [agent for agent in sorted(self._config.agents) if name in self._names(agent)]
        if not agents:
            raise NotFound(
                _("There is no skill {name!r}. `choirctl skill list` shows all.").format(name=name)
            )
        return agents

    def read(self, agent: str, name: str) -> SkillFolder:
        """Return an installed folder. Blocks. Raises NotFound and InvalidRequest."""
        if not self.folder(agent, name).is_dir():
            raise NotFound(
                _("There is no folder {folder}.").format(folder=self.folder(agent, name))
            )
        return read_skill_folder(self.folder(agent, name))

    def check_new(self, name: str, agents: Iterable[str]) -> None:
        """Raise Conflict if one of the agents has a skill with this name, NotFound for an unknown agent."""
        for agent in agents:
            if agent not in self._config.agents:
                raise NotFound(_("There is no agent {agent!r} in config.json.").format(agent=agent))
            if self.folder(agent, name).exists() or name in self._config.skills:
                raise Conflict(
                    _(
                        "The skill {name} exists; `choirctl skill remove {name}` removes it, or "
                        "`choirctl skill approve {name}` approves changed files."
                    ).format(name=name)
                )

    def install(self, folder: SkillFolder, agents: Iterable[str]) -> None:
        """Write the files for each agent without a repository, then the pin. Blocks."""
        for agent in agents:
            if not self.has_repository(agent):
                _write(folder, self.folder(agent, folder.name))
        self.pin(folder.name, folder.sha256, agents)

    def pin(self, name: str, sha256: str, agents: Iterable[str]) -> None:
        """Store the approval of exactly these files in config.json."""
        self._save({**self._raw_pins(), name: {"sha256": sha256, "agents": [*agents]}})

    def remove(self, name: str) -> None:
        """Remove the approval first, then the files. Blocks."""
        agents = self.find_agents(name)
        pins = self._raw_pins()
        if name in pins:
            self._save({key: pin for key, pin in pins.items() if key != name})
        for agent in agents:
            folder = self.folder(agent, name)
            if folder.is_symlink():
                folder.unlink()
            elif folder.is_dir() and not self.has_repository(agent):
                shutil.rmtree(folder)

    def _names(self, agent: str) -> set[str]:
        pinned = {name for name, skill in self._config.skills.items() if agent in skill.agents}
        top = self._home / "agents" / agent / SKILLS
        if not top.is_dir() or self.has_repository(agent):
            return pinned
        # Other folders are not skills: `skill remove` must not delete them.
        return pinned | {path.parent.name for path in top.glob(f"*/{SKILL_FILE}")}

    def _describe(self, agent: str, name: str) -> InstalledSkill:
        config = self._config.skills.get(name)
        pin = config.sha256 if config is not None and agent in config.agents else ""
        if self.has_repository(agent):
            return InstalledSkill(name, agent, "in repository", pin, "")
        try:
            folder = self.read(agent, name)
        except NotFound as error:
            return InstalledSkill(name, agent, "missing", pin, "", error.message)
        except InvalidRequest as error:
            return InstalledSkill(name, agent, "invalid", pin, "", error.message)
        state: SkillState = "approved" if folder.sha256 == pin else "changed"
        if not pin:
            state = "not approved"
        return InstalledSkill(name, agent, state, pin, folder.front.description)

    def _raw_pins(self) -> dict[str, JsonValue]:
        """Return the pins as they are in the file."""
        pins: dict[str, JsonValue] = json.loads(self._file.read_bytes()).get(SKILLS, {})
        return pins

    def _save(self, pins: dict[str, JsonValue]) -> None:
        set_value(self._file, SKILLS, pins)

    @property
    def _file(self) -> Path:
        return self._home / "config.json"


def _write(folder: SkillFolder, target: Path) -> None:
    """Write the folder in one step: a build never sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Outside `skills`, which a build reads.
    partial = target.parent.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        for file in folder.files:
            path = partial / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(0o755 if file.executable else 0o644)
        os.rename(partial, target)  # noqa: PTH104 - fails for a folder that is not empty
    finally:
        shutil.rmtree(partial, ignore_errors=True)
