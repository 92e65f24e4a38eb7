"""The section `skills` of config.json: folders with a SKILL.md that a person approved. See docs/skills.md."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StringConstraints

from choir_common.wire.model import AgentName, WireModel

FOLDER_NAME_PATTERN = r"^[a-z0-9]+(-[a-z0-9]+)*$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"

SkillFolderName = Annotated[str, StringConstraints(pattern=FOLDER_NAME_PATTERN, max_length=64)]
"""The name in SKILL.md, which is also the name of the folder."""
FolderHash = Annotated[str, StringConstraints(pattern=SHA256_PATTERN)]


class SkillFolderConfig(WireModel):
    """A folder with a SKILL.md, as a person approved it."""

    sha256: FolderHash
    """The hash of all its files. An agent offers the folder only while its files have this hash; `choirctl
    skill approve` shows a changed one and sets the new hash."""
    agents: tuple[AgentName, ...] = Field(min_length=1)
    """The agents that may use it."""


def approved_hashes(
    skills: Mapping[str, SkillFolderConfig], agent_id: str
) -> dict[SkillFolderName, FolderHash]:
    """Return the hashes of the folders that an agent may use, by name."""
    return {name: skill.sha256 for name, skill in skills.items() if agent_id in skill.agents}
