"""Parser of SKILL.md: YAML front matter, then instructions in Markdown. Pure."""

from typing import Any

from pydantic import Field, ValidationError, field_validator

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.model import WireModel
from choir_common.wire.skill_config import SkillFolderName
from choir_common.wire.validation_messages import error_messages

SKILL_FILE = "SKILL.md"
MAX_FRONT_MATTER = 16_000
FENCE = "---"


class FrontMatter(WireModel):
    """The fields of the published format."""

    name: SkillFolderName
    description: str = Field(min_length=1, max_length=1_024)
    license: str = Field(default="", max_length=500)
    compatibility: str = Field(default="", max_length=500)
    metadata: dict[str, str] = Field(default_factory=dict, max_length=50)
    allowed_tools: tuple[str, ...] | None = Field(default=None, alias="allowed-tools")
    """The only tools for the work of this skill; None: it names none."""

    @field_validator("allowed_tools", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return split_tools(value) if isinstance(value, str) else value


def parse_skill_text(text: str) -> tuple[FrontMatter, str, tuple[str, ...]]:
    """Return front matter, instructions, and the names of unknown fields, which are ignored.

    Raises InvalidRequest with the field and the reason.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        raise InvalidRequest(
            _("{skill_file}: the first line must be `---`, before the YAML.").format(
                skill_file=SKILL_FILE
            )
        )
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise InvalidRequest(
            _("{skill_file}: a second line `---` must end the YAML.").format(skill_file=SKILL_FILE)
        )
    header = "\n".join(lines[1:end])
    if len(header) > MAX_FRONT_MATTER:
        raise InvalidRequest(
            _("{skill_file}: its YAML is longer than {max_front_matter} characters.").format(
                skill_file=SKILL_FILE, max_front_matter=MAX_FRONT_MATTER
            )
        )
    fields = _load(header)
    names = {field.alias or name for name, field in FrontMatter.model_fields.items()}
    try:
        front = FrontMatter.model_validate(
            {name: _lists_as_tuples(value) for name, value in fields.items() if name in names}
        )
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, SKILL_FILE)[:5])) from None
    unknown = tuple(sorted(str(name)[:60] for name in fields if name not in names))
    return front, "\n".join(lines[end + 1 :]).strip(), unknown


def split_tools(text: str) -> tuple[str, ...]:
    """Return the tools of a list such as `Bash(git add:*) Read, Write`; brackets may contain spaces."""
    tools, word, depth = [], "", 0
    for character in f"{text} ":
        depth += (character == "(") - (character == ")")
        if depth > 0 or character not in " ,\t\n":
            word += character
        elif word:
            tools.append(word)
            word = ""
    # a bracket that is never closed
    return (*tools, word.strip()) if word.strip() else tuple(tools)


def _load(header: str) -> dict[str, Any]:
    # Late, because an agent or a command without skill folders must not wait for the YAML library.
    from choir_common.skill_folders.plain_yaml import load_plain_yaml  # noqa: PLC0415

    try:
        fields = load_plain_yaml(header)
    except ValueError as error:
        raise InvalidRequest(
            _("{skill_file}: its YAML cannot be read: {error}.").format(
                skill_file=SKILL_FILE, error=error
            )
        ) from None
    if not isinstance(fields, dict):
        raise InvalidRequest(
            _("{skill_file}: its YAML must have the fields name and description.").format(
                skill_file=SKILL_FILE
            )
        )
    return fields


def _lists_as_tuples(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
