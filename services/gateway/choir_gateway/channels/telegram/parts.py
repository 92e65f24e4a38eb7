"""Splitting of an outbound message into parts, each sent by one call. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.formatting.chunks import split_text, utf16_length
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import (
    Styled,
    TextRun,
    make_own,
    make_plain,
    plain_text,
)
from choir_gateway.channels.labels import LABEL_ROOM, repeated_label
from choir_gateway.channels.telegram.html import CAPTION_LIMIT, LIMIT


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text message; the last one of a message has the buttons."""

    styled: Styled
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file with its caption."""

    attachment: Attachment
    caption: Styled = ()


MessagePart = TextPart | FilePart


def split_message(message: OutboundMessage) -> Sequence[MessagePart]:
    """Return the parts of a message in order; a short text with a single file becomes its caption."""
    styled = _styled(message)
    files = [FilePart(attachment) for attachment in message.attachments]
    fits = utf16_length(plain_text(styled)) <= CAPTION_LIMIT - LABEL_ROOM
    if len(files) == 1 and fits and not message.buttons and message.edits is None:
        return (replace(files[0], caption=styled),)
    texts = [TextPart(text) for text in split_text(styled, LIMIT - LABEL_ROOM)]
    if texts and message.buttons:
        texts[-1] = replace(texts[-1], buttons=message.buttons)
    return (*texts, *files)


def label_repeated(part: MessagePart, language: str) -> MessagePart:
    """Return the part with a note that the user may have received it before."""
    match part:
        case TextPart(styled):
            return replace(part, styled=(TextRun(f"{repeated_label(language)} "), *styled))
        case FilePart(_, caption):
            return replace(part, caption=(TextRun(f"{repeated_label(language)} "), *caption))


def _styled(message: OutboundMessage) -> Styled:
    if message.session_id is None:
        return make_own(message.text)
    # An agent's process writes its notices and errors itself: they look like its other messages, but
    # are no Markdown, because they quote servers verbatim.
    if message.kind in {"notice", "error"}:
        return make_plain(message.text)
    return parse_markdown(message.text)
