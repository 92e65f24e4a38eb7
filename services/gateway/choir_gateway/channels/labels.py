"""What a channel adds to the messages of others: that one may be a repetition, or lacks a file. Pure."""

from choir_common.i18n import LANGUAGES, Message, _, translate
from choir_common.wire.attachments import Attachment

REPEATED = _("(possibly repeated)")
LABEL_ROOM = max(len(translate(REPEATED, language)) for language in LANGUAGES) + 1
"""Characters that a part keeps free for the label with a space, in each language: a message is always split
into the same parts."""


def repeated_label(language: str) -> str:
    """Return the note that the user may have received a message before."""
    return translate(REPEATED, language)


def describe_lost_file(attachment: Attachment | None, why: str) -> Message:
    """Return the sentence about a file that cannot be sent."""
    return _("The file {name} could not be sent: {why}.").format(
        name=attachment.name if attachment else "?",
        why=why.rstrip(".") if why.endswith(".") else why,
    )
