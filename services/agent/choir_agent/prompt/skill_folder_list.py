"""List of approved skill folders in the prompts, made again when the settings have other approvals."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from choir_agent.prompt.prompt_assembler import PromptAssembler
from choir_agent.prompt.static_prompts import PromptParts
from choir_agent.settings import CurrentSettings


class SkillFolderSource(Protocol):
    """The skill folders of this agent."""

    def summaries(self, pins: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return name and description of each approved folder."""
        ...


class SkillFolderList:
    """Receiver of settings: a folder whose approval is removed leaves the next prompt."""

    def __init__(
        self,
        assembler: PromptAssembler,
        parts: PromptParts,
        folders: SkillFolderSource,
        *,
        listed: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`listed`: what the assembler's prompts list already."""
        self._assembler, self._parts, self._folders = assembler, parts, folders
        self._listed = [*listed]

    async def apply_settings(self, current: CurrentSettings) -> None:
        """List the folders that these settings approve."""
        approved = self._folders.summaries(current.settings.skills)
        # Providers cache the beginning of a prompt, so equal lists must not even be rendered again.
        if approved != self._listed:
            self._listed = approved
            self._assembler.replace_static(self._parts.render(approved))
