"""Splitting of an outbound message into parts, each sent as one event. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.choices import Choices
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import Styled, TextRun, make_own, make_plain
from choir_gateway.channels.labels import LABEL_ROOM, repeated_label
from choir_gateway.channels.matrix.rendering import LIMIT, split_styled

MAX_CHOICES_TEXT = 400
TEXT_LIMIT = LIMIT - LABEL_ROOM - MAX_CHOICES_TEXT


@dataclass(frozen=True, slots=True)
class MatrixMessagePart:
    """An event: a text, or a file with a caption."""

    styled: Styled
    buttons: tuple[Button, ...] = ()
    file: Attachment | None = None
    is_notice: bool = False
    """The user's devices do not ring, and no program answers it."""


def split_message(message: OutboundMessage) -> Sequence[MatrixMessagePart]:
    """Return the parts of a message in order; a short text with a single file becomes its caption."""
    texts = split_styled(_style(message), TEXT_LIMIT)
    files = message.attachments
    if len(texts) == 1 and len(files) == 1 and not message.buttons and message.edits is None:
        return (MatrixMessagePart(texts[0], file=files[0]),)
    parts = [MatrixMessagePart(text) for text in texts]
    if parts and message.buttons:
        parts[-1] = replace(parts[-1], buttons=message.buttons)
    return (*parts, *(MatrixMessagePart((), file=file) for file in files))


def split_note(text: str) -> Sequence[MatrixMessagePart]:
    """Return the parts of a note of Choir itself."""
    return [
        MatrixMessagePart(part, is_notice=True) for part in split_styled(make_own(text), TEXT_LIMIT)
    ]


def make_card_part(text: str) -> MatrixMessagePart:
    """Return the message of a progress card; what does not fit is left out."""
    return MatrixMessagePart(split_styled(make_plain(text))[0], is_notice=True)


def label_repeated(part: MatrixMessagePart, language: str) -> MatrixMessagePart:
    """Return the part with a note that the user may have received it before."""
    return replace(part, styled=(TextRun(f"{repeated_label(language)} "), *part.styled))


def add_choices(part: MatrixMessagePart, choices: Choices, language: str) -> MatrixMessagePart:
    """Return the question with the lines that say how to answer."""
    text = part.styled[-1].text if part.styled else ""
    gap = "\n" if text.endswith("\n") else "\n\n"
    return replace(part, styled=(*part.styled, TextRun(f"{gap}{choices.describe(language)}")))


def _style(message: OutboundMessage) -> Styled:
    if message.session_id is None:
        return make_own(message.text)
    # An agent's process writes its notices and errors itself, and they quote servers verbatim.
    if message.kind in {"notice", "error"}:
        return make_plain(message.text)
    return parse_markdown(message.text)
