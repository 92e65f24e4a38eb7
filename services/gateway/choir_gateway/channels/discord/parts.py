"""Splitting of an outbound message into parts, each sent by one call. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.discord.rendering import LIMIT, split_markdown
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import Styled, make_own, make_plain
from choir_gateway.channels.labels import LABEL_ROOM, repeated_label

TEXT_LIMIT = LIMIT - LABEL_ROOM


@dataclass(frozen=True, slots=True)
class DiscordMessagePart:
    """A message on Discord: a text, a file, or a file below a text."""

    text: str
    buttons: tuple[Button, ...] = ()
    file: Attachment | None = None


def split_message(message: OutboundMessage) -> Sequence[DiscordMessagePart]:
    """Return the parts of a message in order: texts, then files; a single file stays with a short text."""
    texts = split_markdown(_styled(message), TEXT_LIMIT)
    files = message.attachments
    if len(texts) == 1 and len(files) == 1 and message.edits is None:
        return (DiscordMessagePart(texts[0], message.buttons, files[0]),)
    parts = [DiscordMessagePart(text) for text in texts]
    if parts and message.buttons:
        parts[-1] = replace(parts[-1], buttons=message.buttons)
    return (*parts, *(DiscordMessagePart("", file=file) for file in files))


def split_note(text: str) -> Sequence[DiscordMessagePart]:
    """Return the parts of a note of Choir itself."""
    return [DiscordMessagePart(part) for part in split_markdown(make_own(text), TEXT_LIMIT)]


def make_card_part(text: str) -> DiscordMessagePart:
    """Return the message of a progress card; what does not fit is left out."""
    return DiscordMessagePart(split_markdown(make_plain(text))[0])


def label_repeated(part: DiscordMessagePart, language: str) -> DiscordMessagePart:
    """Return the part with a note that the user may have received it before."""
    # A quotation is one only at the beginning of a line.
    gap = "\n" if part.text.startswith(">") else " "
    return replace(part, text=f"{repeated_label(language)}{gap}{part.text}".rstrip())


def _styled(message: OutboundMessage) -> Styled:
    if message.session_id is None:
        return make_own(message.text)
    # An agent's process writes its notices and errors itself, and they quote servers verbatim.
    if message.kind in {"notice", "error"}:
        return make_plain(message.text)
    return parse_markdown(message.text)
