"""Validation of the blocks of messages by the documented limits, and what a user sees of them."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.slack.faults import ApiError

MAX_BLOCKS = 50
MAX_SECTION_TEXT = 3000
MAX_ACTIONS = 25
MAX_BUTTON_TEXT = 75
MAX_ACTION_ID = 255
MAX_VALUE = 2000
STYLES = {"bold", "italic", "strike", "code"}
CONTAINERS = {"rich_text_section", "rich_text_preformatted", "rich_text_quote"}


@dataclass(frozen=True, slots=True)
class FakeButton:
    """A button below a message."""

    label: str
    action_id: str
    value: str
    block_id: str


@dataclass(slots=True)
class ShownBlocks:
    """What a user sees of blocks."""

    lines: list[str] = field(default_factory=list)
    buttons: list[FakeButton] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    has_links: bool = False

    @property
    def text(self) -> str:
        """The text without marks."""
        return "\n".join(self.lines)


def read_blocks(blocks: JsonValue) -> ShownBlocks:
    """Check blocks and return what they show."""
    shown = ShownBlocks()
    if not isinstance(blocks, list) or len(blocks) > MAX_BLOCKS:
        raise ApiError("invalid_blocks_format")
    for number, block in enumerate(blocks):
        match _object(block):
            case {"type": "rich_text", "elements": list(elements), **rest} if not _unknown(rest):
                for element in elements:
                    _read_container(_object(element), shown)
            case {"type": "actions", "elements": list(elements), **rest} if not _unknown(rest):
                _require(1 <= len(elements) <= MAX_ACTIONS)
                shown.buttons += [_read_button(_object(it), f"b{number}") for it in elements]
            case {"type": "section", "text": dict(text), **rest} if not _unknown(rest):
                content = text.get("text")
                _require(isinstance(content, str) and 1 <= len(content) <= MAX_SECTION_TEXT)
                shown.lines.append(str(content))
            case _:
                raise ApiError("invalid_blocks")
    ids = [button.action_id for button in shown.buttons]
    _require(len(set(ids)) == len(ids))
    return shown


def _read_container(container: JsonObject, shown: ShownBlocks) -> None:
    kind, elements = container.get("type"), container.get("elements")
    _require(kind in CONTAINERS and isinstance(elements, list) and bool(elements))
    _require(container.keys() <= {"type", "elements", "border"})
    text = ""
    for element in elements if isinstance(elements, list) else []:
        text += _read_element(_object(element), shown)
    shown.lines.append(text)
    if kind == "rich_text_quote":
        shown.quotes.append(text)


def _read_element(element: JsonObject, shown: ShownBlocks) -> str:
    style = element.get("style", {})
    _require(isinstance(style, dict) and style.keys() <= STYLES)
    match element:
        case {"type": "text", "text": str(text)} if element.keys() <= {"type", "text", "style"}:
            _require(bool(text))
            return text
        case {"type": "link", "url": str(url)} if element.keys() <= {
            "type",
            "url",
            "text",
            "style",
        }:
            _require(url.startswith(("http://", "https://", "mailto:")) and len(url) <= 3000)
            shown.has_links = True
            label = element.get("text", url)
            _require(isinstance(label, str) and bool(label))
            return str(label)
        case _:
            raise ApiError("invalid_blocks")


def _read_button(button: JsonObject, block_id: str) -> FakeButton:
    text = _object(button.get("text"))
    label, action_id, value = text.get("text"), button.get("action_id"), button.get("value", "")
    _require(button.get("type") == "button" and text.get("type") == "plain_text")
    _require(button.keys() <= {"type", "text", "action_id", "value", "style", "confirm"})
    _require(isinstance(label, str) and 1 <= len(label) <= MAX_BUTTON_TEXT)
    _require(isinstance(action_id, str) and 1 <= len(action_id) <= MAX_ACTION_ID)
    _require(isinstance(value, str) and len(value) <= MAX_VALUE)
    return FakeButton(str(label), str(action_id), str(value), block_id)


def _unknown(rest: JsonObject) -> bool:
    return not rest.keys() <= {"block_id"}


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise ApiError("invalid_blocks")
    return value


def _require(is_valid: bool) -> None:
    if not is_valid:
        raise ApiError("invalid_blocks")
