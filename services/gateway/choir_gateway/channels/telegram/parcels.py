"""Splitting of an outbound message into parts, each sent by one call. Pure; called by `sending`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.telegram.chunks import CAPTION_LIMIT, LIMIT, split, units
from choir_gateway.channels.telegram.markdown import read_markdown
from choir_gateway.channels.telegram.styled import Run, Styled, plain, unstyled

REPEATED = "(possibly repeated) "


@dataclass(frozen=True, slots=True)
class Words:
    """A text message; the last one of a message has the buttons."""

    styled: Styled
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file with its caption."""

    attachment: Attachment
    caption: Styled = ()


Parcel = Words | File


def lay_out(message: OutboundMessage) -> Sequence[Parcel]:
    """Return the parts of a message in order; a short text with a single file becomes its caption."""
    styled = _styled(message)
    files = [File(attachment) for attachment in message.attachments]
    fits = units(plain(styled)) <= CAPTION_LIMIT - len(REPEATED)
    if len(files) == 1 and fits and not message.buttons and message.edits is None:
        return (replace(files[0], caption=styled),)
    words = [Words(part) for part in split(styled, LIMIT - len(REPEATED))]
    if words and message.buttons:
        words[-1] = replace(words[-1], buttons=message.buttons)
    return (*words, *files)


def doubtful(parcel: Parcel) -> Parcel:
    """Return the part with a note that the user may have received it before."""
    match parcel:
        case Words():
            return doubtful_words(parcel)
        case File(_, caption):
            return replace(parcel, caption=(Run(REPEATED), *caption))


def doubtful_words(words: Words) -> Words:
    """Return the text with a note that the user may have received it before."""
    return replace(words, styled=(Run(REPEATED), *words.styled))


def _styled(message: OutboundMessage) -> Styled:
    # Texts of models are Markdown; Choir's own notices are plain text.
    own = message.session_id is None or message.kind in {"notice", "error"}
    return unstyled(message.text) if own else read_markdown(message.text)
