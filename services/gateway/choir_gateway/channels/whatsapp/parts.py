"""Splitting of an outbound message into parts, each sent by one call. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from choir_common.i18n import ENGLISH, _, translate
from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.model import JsonObject
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import Styled, make_own, make_plain
from choir_gateway.channels.labels import LABEL_ROOM, repeated_label
from choir_gateway.channels.whatsapp.rendering import BODY_LIMIT, LIMIT, split_rendered

MAX_REPLY_BUTTONS, MAX_BUTTON_TITLE = 3, 20
MAX_ROWS, MAX_ROW_TITLE, MAX_ROW_DETAIL = 10, 24, 72
LIST_BUTTON = _("Choose")
MORE_BUTTONS = _("More choices:")


@dataclass(frozen=True, slots=True)
class TextMessagePart:
    """A text message, the last one of a message with its buttons."""

    text: str
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class FileMessagePart:
    """A file with its caption."""

    attachment: Attachment
    caption: str = ""


MessagePart = TextMessagePart | FileMessagePart


def split_message(message: OutboundMessage) -> Sequence[MessagePart]:
    """Return the parts of a message in order; a short text with a single file becomes its caption."""
    styled = _styled(message)
    files = [FileMessagePart(attachment) for attachment in message.attachments]
    if (
        len(files) == 1
        and files[0].attachment.kind not in {"voice", "audio"}
        and not message.buttons
    ):
        captions = split_rendered(styled, BODY_LIMIT - LABEL_ROOM)
        if len(captions) <= 1:
            return (replace(files[0], caption="".join(captions)),)
    return (*_split_texts(styled, message.buttons, message.language), *files)


def split_note(text: str) -> Sequence[TextMessagePart]:
    """Return the parts of a note of Choir itself."""
    return _split_texts(make_own(text), ())


def make_card_part(text: str) -> TextMessagePart:
    """Return the message of a progress card; what does not fit is left out."""
    return _split_texts(make_plain(text), ())[0]


def label_repeated(part: MessagePart, language: str) -> MessagePart:
    """Return the part with a note that the user may have received it before."""
    match part:
        case TextMessagePart(text):
            # A quotation is one only at the beginning of a line.
            gap = "\n" if text.startswith(">") else ""
            return replace(part, text=f"{repeated_label(language)} {gap}{text}")
        case FileMessagePart(attachment, caption) if attachment.kind not in {"voice", "audio"}:
            return replace(part, caption=f"{repeated_label(language)} {caption}".rstrip())
        case _:
            # A recording has no caption; hearing it twice tells the same.
            return part


def make_text_body(part: TextMessagePart, language: str = ENGLISH) -> JsonObject:
    """Return the content of the call that sends a text."""
    if not part.buttons:
        # WhatsApp fetches an address to preview it, without a click; an agent's text must not cause that.
        return {"type": "text", "text": {"body": part.text, "preview_url": False}}
    labels = [button.label for button in part.buttons]
    fits = all(len(label) <= MAX_BUTTON_TITLE for label in labels)
    if len(labels) <= MAX_REPLY_BUTTONS and fits and len(set(labels)) == len(labels):
        replies: list[JsonValue] = [
            {"type": "reply", "reply": {"id": button.data, "title": button.label}}
            for button in part.buttons
        ]
        return _interactive("button", part.text, {"buttons": replies})
    rows: list[JsonValue] = [_row(number, button) for number, button in enumerate(part.buttons, 1)]
    action: JsonObject = {"button": translate(LIST_BUTTON, language), "sections": [{"rows": rows}]}
    return _interactive("list", part.text, action)


def _interactive(kind: str, text: str, action: JsonObject) -> JsonObject:
    body: JsonObject = {"type": kind, "body": {"text": text}, "action": action}
    return {"type": "interactive", "interactive": body}


def _row(number: int, button: Button) -> JsonObject:
    row: JsonObject = {"id": button.data, "title": button.label}
    if len(button.label) > MAX_ROW_TITLE:
        # The number makes it unique.
        title = f"{number}. {button.label}"
        row |= {
            "title": title[: MAX_ROW_TITLE - 1] + "…",
            "description": button.label[:MAX_ROW_DETAIL],
        }
    return row


def _split_texts(
    styled: Styled, buttons: tuple[Button, ...], language: str = ENGLISH
) -> Sequence[TextMessagePart]:
    texts = split_rendered(styled, LIMIT - LABEL_ROOM - 1)
    if not buttons:
        return [TextMessagePart(text) for text in texts]
    limit = BODY_LIMIT - LABEL_ROOM - 1
    # A text with buttons is shorter; a longer one goes before them.
    short = texts if len(texts) == 1 and len(texts[0]) <= limit else split_rendered(styled, limit)
    more = translate(MORE_BUTTONS, language)
    groups = [buttons[at : at + MAX_ROWS] for at in range(0, len(buttons), MAX_ROWS)]
    parts = [TextMessagePart(text) for text in short or [more]]
    parts[-1] = replace(parts[-1], buttons=groups[0])
    return [*parts, *(TextMessagePart(more, group) for group in groups[1:])]


def _styled(message: OutboundMessage) -> Styled:
    if message.session_id is None:
        return make_own(message.text)
    # An agent's process writes its notices and errors itself, and they quote servers verbatim.
    if message.kind in {"notice", "error"}:
        return make_plain(message.text)
    return parse_markdown(message.text)
