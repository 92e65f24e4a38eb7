"""Events of what Choir adds to a user's message before and while the model reads it.

Re-exported by `events`.
"""

from typing import Literal

from choir_common.wire.attachments import AttachmentText
from choir_common.wire.memory_recall import Reminder
from choir_common.wire.model import WireModel
from choir_common.wire.money import ModelUsage


class RemindersAdded(WireModel):
    """Memory added reminders to the user's message; the turn's prompts show them."""

    type: Literal["reminded"] = "reminded"
    turn_id: str
    reminders: tuple[Reminder, ...]
    receipts: tuple[str, ...] = ()
    """Receipt ids of memory's searches."""
    collections: tuple[str, ...] = ()
    """Collections that have documents about the message."""


class AttachmentsRead(WireModel):
    """The agent read the files of the user's message; the turn's prompts show what it read."""

    type: Literal["attachments_read"] = "attachments_read"
    turn_id: str
    texts: tuple[AttachmentText, ...]


class PictureDescribed(WireModel):
    """A picture was described by another model for a model that cannot see it; prompts show the text."""

    type: Literal["picture_described"] = "picture_described"
    turn_id: str
    path: str
    """The picture's path in the workspace."""
    text: str = ""
    problem: str = ""
    """Why there is no description; it follows the file's name in a sentence."""
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    usage: ModelUsage | None = None
    """What the call's price depends on besides the tokens above."""
