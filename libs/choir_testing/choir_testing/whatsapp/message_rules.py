"""The rules for the bodies of sent messages. Pure; `server` applies them to each call."""

from collections.abc import Iterable

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.whatsapp.accounts import BusinessNumber, FakeMessage, new_message_id
from choir_testing.whatsapp.faults import ApiError, invalid_parameter

MB = 1024 * 1024
OFFICE = "application/vnd.openxmlformats-officedocument"
MEDIA: dict[str, tuple[frozenset[str], int]] = {
    "image": (frozenset({"image/jpeg", "image/png"}), 5 * MB),
    "video": (frozenset({"video/mp4", "video/3gpp"}), 16 * MB),
    "audio": (
        frozenset({"audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg"}),
        16 * MB,
    ),
    "document": (
        frozenset(
            {
                *("text/plain", "application/pdf", "application/msword"),
                *("application/vnd.ms-excel", "application/vnd.ms-powerpoint"),
                *(f"{OFFICE}.wordprocessingml.document", f"{OFFICE}.spreadsheetml.sheet"),
                f"{OFFICE}.presentationml.presentation",
            }
        ),
        100 * MB,
    ),
}
"""The types and the largest size of each kind of file."""
COMMON = {"messaging_product", "recipient_type", "to", "recipient", "type", "context"}
FIELDS: dict[str, set[str]] = {
    "image": {"id", "caption"},
    "video": {"id", "caption"},
    "audio": {"id", "voice"},
    "document": {"id", "caption", "filename"},
}
MAX_CALLBACK_DATA = 512


def check_upload(mime: str, content: bytes) -> None:
    """Check a file. Raises ApiError."""
    for mimes, max_bytes in MEDIA.values():
        if mime in mimes:
            if not content or len(content) > max_bytes:
                raise invalid_parameter("file", f"the size {len(content)} is not allowed")
            return
    types = ", ".join(sorted(mime for mimes, _ in MEDIA.values() for mime in mimes))
    raise invalid_parameter(
        "file",
        f"Param file must be a file with one of the following types: {types}. Received file of type "
        f"'{mime}'.",
    )


def make_message(number: BusinessNumber, wa_id: str, body: JsonObject) -> FakeMessage:
    """Return the message of a call. Raises ApiError for anything that is not documented."""
    kind = body.get("type")
    if not isinstance(kind, str) or kind not in {"text", "interactive", *MEDIA}:
        raise invalid_parameter("type", f"unknown type {kind!r}")
    _only(body, COMMON | {kind, "biz_opaque_callback_data"}, "message")
    if len(_text(body.get("biz_opaque_callback_data", ""), "callback")) > MAX_CALLBACK_DATA:
        raise invalid_parameter("biz_opaque_callback_data", "longer than 512 characters")
    message = FakeMessage(new_message_id(wa_id), from_business=True)
    if "context" in body:
        message.reply_to = _text(_object(body["context"], "context").get("message_id"), "context")
        if message.reply_to not in number.chat(wa_id).messages:
            raise ApiError(400, 131009, "context.message_id: no such message")
    content = _object(body.get(kind), kind)
    if kind == "text":
        _only(content, {"body", "preview_url"}, "text")
        message.text = _bounded(content.get("body"), 4096, "text.body")
        message.has_preview = content.get("preview_url") is True
    elif kind == "interactive":
        _fill_interactive(message, content)
    else:
        _fill_media(message, number, kind, content)
    return message


def _fill_interactive(message: FakeMessage, content: JsonObject) -> None:
    _only(content, {"type", "body", "action"}, "interactive")
    text = _object(content.get("body"), "body").get("text")
    action = _object(content.get("action"), "action")
    match content.get("type"):
        case "button":
            message.text = _bounded(text, 1024, "body.text")
            _only(action, {"buttons"}, "action")
            choices = [
                _object(_object(it, "button").get("reply"), "reply")
                for it in _array(action.get("buttons"), 3, "buttons")
            ]
            _fill_choices(message, choices, max_title=20, max_id=256)
        case "list":
            message.is_list = True
            message.text = _bounded(text, 4096, "body.text")
            _only(action, {"button", "sections"}, "action")
            _bounded(action.get("button"), 20, "action.button")
            (section,) = _array(action.get("sections"), 1, "sections")
            rows = [
                _object(it, "row")
                for it in _array(_object(section, "section").get("rows"), 10, "rows")
            ]
            for row in rows:
                _only(row, {"id", "title", "description"}, "row")
                if "description" in row:
                    _bounded(row["description"], 72, "row.description")
            _fill_choices(message, rows, max_title=24, max_id=200)
        case other:
            raise invalid_parameter("interactive.type", f"unknown type {other!r}")


def _fill_choices(
    message: FakeMessage, choices: Iterable[JsonObject], *, max_title: int, max_id: int
) -> None:
    for choice in choices:
        title = _bounded(choice.get("title"), max_title, "title")
        data = _bounded(choice.get("id"), max_id, "id")
        if title in message.choices or data in message.choices.values():
            raise invalid_parameter("title", "titles and ids must be unique")
        message.choices[title] = data


def _fill_media(
    message: FakeMessage, number: BusinessNumber, kind: str, content: JsonObject
) -> None:
    _only(content, FIELDS[kind], kind)
    file = number.media.get(_text(content.get("id"), "id"))
    if file is None:
        raise invalid_parameter(f"{kind}.id", "no such media")
    if file.mime not in MEDIA[kind][0]:
        raise ApiError(400, 131053, f"A file of type {file.mime} cannot be sent as {kind}.")
    message.text = _bounded(content["caption"], 1024, "caption") if "caption" in content else ""
    message.is_voice = content.get("voice") is True
    if message.is_voice and file.mime != "audio/ogg":
        raise invalid_parameter("audio.voice", "a voice message must be Ogg Opus")
    file.name = _text(content.get("filename", file.name), "filename")
    message.file = file


def _only(content: JsonObject, names: set[str], place: str) -> None:
    unknown = content.keys() - names
    if unknown:
        raise invalid_parameter(place, f"Unexpected key {sorted(unknown)}")


def _object(value: JsonValue, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise invalid_parameter(place, "must be an object")
    return value


def _array(value: JsonValue, most: int, place: str) -> list[JsonValue]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise invalid_parameter(place, f"must have 1 to {most} items")
    return value


def _text(value: JsonValue, place: str) -> str:
    if not isinstance(value, str):
        raise invalid_parameter(place, "must be a string")
    return value


def _bounded(value: JsonValue, most: int, place: str) -> str:
    text = _text(value, place)
    if not text.strip() or len(text.encode("utf-16-le")) // 2 > most:
        raise invalid_parameter(place, f"must have 1 to {most} characters")
    return text
