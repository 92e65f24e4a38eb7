"""Splitting of an outbound message into parts, each sent by one call. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.formatting.chunks import split_text
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import Styled, TextRun, make_own, make_plain
from choir_gateway.channels.labels import LABEL_ROOM, repeated_label

LIMIT = 3_900
"""Slack recommends at most 4,000 characters, and cuts a text at 40,000."""
TEXT_LIMIT = LIMIT - LABEL_ROOM


@dataclass(frozen=True, slots=True)
class SlackMessagePart:
    """A message on Slack: a text, or a file."""

    styled: Styled = ()
    buttons: tuple[Button, ...] = ()
    file: Attachment | None = None


def split_message(message: OutboundMessage) -> Sequence[SlackMessagePart]:
    """Return the parts of a message in order: texts, then files.

    Slack does not name the message of a file, to which an edit would refer, so a file has no text.
    """
    parts = [SlackMessagePart(text) for text in split_text(_styled(message), TEXT_LIMIT)]
    if parts and message.buttons:
        parts[-1] = replace(parts[-1], buttons=message.buttons)
    return (*parts, *(SlackMessagePart(file=file) for file in message.attachments))


def split_note(text: str) -> Sequence[SlackMessagePart]:
    """Return the parts of a note of Choir itself."""
    return [SlackMessagePart(part) for part in split_text(make_own(text), TEXT_LIMIT)]


def make_card_part(text: str) -> SlackMessagePart:
    """Return the message of a progress card; what does not fit is left out."""
    return SlackMessagePart(split_text(make_plain(text), LIMIT)[0])


def label_repeated(part: SlackMessagePart, language: str) -> SlackMessagePart:
    """Return the part with a note that the user may have received it before."""
    return replace(part, styled=(TextRun(f"{repeated_label(language)} "), *part.styled))


def _styled(message: OutboundMessage) -> Styled:
    if message.session_id is None:
        return make_own(message.text)
    # An agent's process writes its notices and errors itself, and they quote servers verbatim.
    if message.kind in {"notice", "error"}:
        return make_plain(message.text)
    return parse_markdown(message.text)
