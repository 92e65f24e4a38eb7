"""Registry of this agent's skills, loaded once at startup and immutable afterwards.

An invalid file stops the startup: an agent never runs with a part of its skills.
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import orjson

from choir_agent.log.session_state import SkillState
from choir_agent.skills.skill_parser import InvalidSkill, parse_skill
from choir_agent.skills.skill_spec import SkillSpec
from choir_common.errors import StartupError
from choir_common.i18n import _

SKILL_DIRECTORIES = ("skills/global", "skills", "skills/agent")
"""Directories below /choir, in order: each overrides skills of the same name in earlier ones and
built-in skills."""
MAX_SKILLS = 500


class SkillSource(Protocol):
    """A skill file: on disk, or shipped in this package."""

    def read_bytes(self) -> bytes: ...


class SkillRegistry:
    """Skills by name."""

    def __init__(self, specs: Collection[SkillSpec]) -> None:
        self._specs = {spec.name: spec for spec in sorted(specs, key=lambda spec: spec.name)}
        self.manifest_hash = hashlib.sha256(
            orjson.dumps(
                [asdict(spec) for spec in self._specs.values()], option=orjson.OPT_SORT_KEYS
            )
        ).hexdigest()
        """Hash of all skills: changes with every change of any skill."""

    def find(self, name: str) -> SkillSpec | None:
        """Return the skill with that name, or None."""
        return self._specs.get(name)

    def of(self, skill: SkillState) -> SkillSpec | None:
        """Return the spec of the skill that a lane is in, or None if this agent no longer has it."""
        return self._specs.get(skill.skill)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return [*self._specs]

    def with_specs(self, specs: Collection[SkillSpec]) -> "SkillRegistry":
        """Return a registry with these skills as well."""
        return SkillRegistry([*self._specs.values(), *specs])

    def summaries(self, missing: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
        """Return name and description of each usable skill, for the system prompt.

        A skill is not usable if all tools of one of its states are `missing`: it could not be finished.
        """
        listed = (spec for spec in self._specs.values() if spec.is_listed)
        usable = (spec for spec in listed if not _is_stuck(spec, missing))
        return [(spec.name, spec.description) for spec in usable]


def _is_stuck(spec: SkillSpec, missing: frozenset[str]) -> bool:
    needed = (frozenset(state.allowed_tools) for state in spec.states.values())
    return any(tools and tools <= missing for tools in needed)


def load_skills(choir_dir: Path, known_tools: Collection[str]) -> SkillRegistry:
    """Load the built-in skills and those of /choir. Blocks on file I/O, so call it at startup only.

    Raises StartupError with the file, the field and the reason for an invalid skill.
    """
    loaded = _read_all(_built_in(), known_tools)
    for directory in SKILL_DIRECTORIES:
        loaded |= _read_all(_on_disk(choir_dir / directory), known_tools)
    return SkillRegistry(loaded.values())


def _read_all(
    sources: Iterator[tuple[str, SkillSource]], known_tools: Collection[str]
) -> dict[str, SkillSpec]:
    specs: dict[str, SkillSpec] = {}
    sources_by_name: dict[str, str] = {}
    for source, file in sources:
        try:
            spec = parse_skill(file.read_bytes(), known_tools)
        except InvalidSkill as error:
            raise StartupError(
                _("The skill {source} is invalid. {error}.").format(
                    source=source, error=error.message
                )
            ) from error
        except OSError as error:
            raise StartupError(
                _("Cannot read the skill {source}: {error}.").format(
                    source=source, error=error.strerror
                )
            ) from error
        if spec.name in specs:
            raise StartupError(
                _("The skills {sources_by_name} and {source} have the same name {spec!r}.").format(
                    sources_by_name=sources_by_name[spec.name], source=source, spec=spec.name
                )
            )
        specs[spec.name], sources_by_name[spec.name] = spec, source
        if len(specs) > MAX_SKILLS:
            raise StartupError(
                _(
                    "There are more than {max_skills} skills; the first one too many is {source}."
                ).format(max_skills=MAX_SKILLS, source=source)
            )
    return specs


def _built_in() -> Iterator[tuple[str, SkillSource]]:
    shipped = files("choir_agent.skills").joinpath("builtin")
    for file in sorted(shipped.iterdir(), key=lambda file: file.name):
        yield file.name, file


def _on_disk(directory: Path) -> Iterator[tuple[str, SkillSource]]:
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return
    except OSError as error:
        raise StartupError(
            _("Cannot list the skills in {directory}: {error}.").format(
                directory=directory, error=error.strerror
            )
        ) from error
    for path in paths:
        yield str(path), path
