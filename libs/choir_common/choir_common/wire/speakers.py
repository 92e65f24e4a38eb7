"""Who wrote a message: the name that a group shows, the person in `people`, and the role.

A name in a group is chosen by its user and therefore untrusted: it is cut, kept in one line, and shown in
prompts as a quotation that it cannot leave.
"""

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from choir_common.wire.model import WireModel
from choir_common.wire.people_config import PersonRole

MAX_DISPLAY_NAME = 64
UNKNOWN_NAME = "somebody"
# A name must not imitate the marks of the line that shows it, nor of the block that it stands in.
_MARKS = frozenset("\"'`[](){}<>|*_#\\⟦⟧“”„«»")


def clean_display_name(name: str) -> str:
    """Return a name as prompts and memory show it: one line, bounded, and without marks."""
    letters = [" " if _is_space(char) else char for char in name if char not in _MARKS]
    line = " ".join("".join(char for char in letters if _is_visible(char)).split())
    return line[:MAX_DISPLAY_NAME].rstrip() or UNKNOWN_NAME


DisplayName = Annotated[str, AfterValidator(clean_display_name)]


class GroupMember(WireModel):
    """The user who wrote a message in a group, as the channel names it."""

    user_id: str = Field(min_length=1, max_length=255)
    name: DisplayName
    """The name that the group shows."""


class MessageSpeaker(WireModel):
    """The user who wrote a message, as prompts and memory name it."""

    name: str = ""
    """The person in `people` of config.json; empty for nobody in it."""
    role: PersonRole = "guest"
    display_name: str = ""
    """The name that the group shows; empty in a private conversation."""

    @property
    def is_in_group(self) -> bool:
        """Return whether the message was written in a group."""
        return bool(self.display_name)

    @property
    def is_outsider(self) -> bool:
        """Return whether this is a guest of a group, whose text is from outside: anybody may be that."""
        return self.is_in_group and self.role == "guest"

    @property
    def label(self) -> str:
        """Return the name for memory: `Bobby (bob)`, or `Bobby (guest)` for nobody in `people`."""
        name = clean_display_name(self.display_name)
        return f"{name} ({self.name or self.role})" if self.is_in_group else self.name


def format_speaker(speaker: MessageSpeaker | None) -> str:
    """Return who wrote a message, for the line above it: `from bob`, or `from "Bobby" (bob, member)`."""
    if speaker is None or not (speaker.name or speaker.display_name):
        return ""
    if not speaker.is_in_group:
        return f"from {speaker.name}"
    person = f"{speaker.name}, " if speaker.name else ""
    return f'from "{clean_display_name(speaker.display_name)}" ({person}{speaker.role})'


def _is_space(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) in ("Zl", "Zp", "Zs")


def _is_visible(char: str) -> bool:
    # Controls, invisible characters, and those that change the direction of the text.
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")
