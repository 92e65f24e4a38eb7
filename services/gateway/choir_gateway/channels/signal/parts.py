"""Splitting of an outbound message into parts, each sent as one message. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.choices import Choices
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import Styled, TextRun, make_own, make_plain
from choir_gateway.channels.labels import LABEL_ROOM, repeated_label
from choir_gateway.channels.signal.rendering import LIMIT, split_styled

MAX_CHOICES_TEXT = 400
TEXT_LIMIT = LIMIT - LABEL_ROOM


@dataclass(frozen=True, slots=True)
class SignalMessagePart:
    """A message: a text, or a file with a text."""

    styled: Styled
    buttons: tuple[Button, ...] = ()
    file: Attachment | None = None


def split_message(message: OutboundMessage) -> Sequence[SignalMessagePart]:
    """Return the parts of a message in order; a short text with a single file is sent with it."""
    limit = TEXT_LIMIT - MAX_CHOICES_TEXT if message.buttons else TEXT_LIMIT
    texts, files = split_styled(_style(message), limit), message.attachments
    if len(texts) == 1 and len(files) == 1 and not message.buttons and message.edits is None:
        return (SignalMessagePart(texts[0], file=files[0]),)
    parts = [SignalMessagePart(text) for text in texts]
    if parts and message.buttons:
        parts[-1] = replace(parts[-1], buttons=message.buttons)
    return (*parts, *(SignalMessagePart((), file=file) for file in files))


def split_note(text: str) -> Sequence[SignalMessagePart]:
    """Return the parts of a note of Choir itself."""
    return [SignalMessagePart(part) for part in split_styled(make_own(text), TEXT_LIMIT)]


def make_card_part(text: str) -> SignalMessagePart:
    """Return the message of a progress card; what does not fit is left out."""
    return SignalMessagePart(split_styled(make_plain(text))[0])


def label_repeated(part: SignalMessagePart, language: str) -> SignalMessagePart:
    """Return the part with a note that the user may have received it before."""
    is_own = any(mark.tag == "blockquote" for run in part.styled[:1] for mark in run.marks)
    label = repeated_label(language) + ("\n" if is_own else " ")
    return replace(part, styled=(TextRun(label), *part.styled))


def add_choices(part: SignalMessagePart, choices: Choices, language: str) -> SignalMessagePart:
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
