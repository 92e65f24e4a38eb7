"""Change one setting of config.json without touching any other byte of the file. Used by `config set`."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _, join
from choir_common.json_places import offset_of
from choir_common.wire.config import Config
from choir_common.wire.config_messages import setting_error_message
from choir_common.wire.validation_messages import error_path, format_errors
from choirctl.start.config_file import MAX_FAULTS
from choirctl.start.config_insert import detect_indent, replace_file


def set_value(path: Path, key: str, value: JsonValue) -> JsonValue:
    """Set `key` in the file and return its previous value, or None if it was not set.

    Raises NotFound if there is no file, InvalidRequest if the result would be no valid configuration; the
    file is
    not changed then.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(
            _("There is no {path}. `choirctl init` makes a first one.").format(path=path)
        ) from None
    steps = key.split(".")
    if not all(steps):
        raise InvalidRequest(
            _("{key!r} names no setting: give its path, such as agents.main.timezone.").format(
                key=key
            )
        )
    new_text, before = with_value(text, str(path), steps, value)
    # validate before writing: an invalid file would stop the next start of Choir
    try:
        Config.model_validate_json(new_text)
    except ValidationError as error:
        faults = [
            join(": ", (error_path(it, _("the file")), setting_error_message(it)))
            for it in error.errors()
        ]
        head, tail = _("{path} would be invalid").format(path=path), _("Nothing was changed.")
        raise InvalidRequest(format_errors(head, faults, tail, MAX_FAULTS)) from None
    replace_file(path, new_text)
    return before


def with_value(
    text: str, file_name: str, steps: Sequence[str], value: JsonValue
) -> tuple[str, JsonValue]:
    """Return the text with `value` at the path `steps`, and the previous value. Pure."""
    try:
        document: JsonValue = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(
            _("{file_name} is not JSON ({error}); correct it first.").format(
                file_name=file_name, error=error
            )
        ) from None
    node, depth = document, 0
    while depth < len(steps) and isinstance(node, dict) and steps[depth] in node:
        node, depth = node[steps[depth]], depth + 1
    if depth == len(steps):
        begin, end = _span(text, steps)
        value_json = _format_value(text, value, len(steps))
        return f"{text[:begin]}{value_json}{text[end:]}", node
    if not isinstance(node, dict):
        raise InvalidRequest(
            _("{names} is not a section; its value is {dumps}.").format(
                names=".".join(steps[:depth]), dumps=json.dumps(node)
            )
        )
    for name in reversed(steps[depth + 1 :]):
        value = {name: value}
    return _append_entry(text, steps[:depth], steps[depth], value, bool(node)), None


def _append_entry(
    text: str, section: Sequence[str], name: str, value: JsonValue, more: bool
) -> str:
    """Return the text with a new name at the end of a section; `more` if the section is not empty."""
    begin, end = _span(text, section)
    indent = detect_indent(text)
    entry_json = f"{json.dumps(name)}: {_format_value(text, value, len(section) + 1)}"
    inner = text[begin + 1 : end - 1].rstrip()
    comma = "," if more else ""
    depth = len(section)
    return (
        f"{text[: begin + 1]}{inner}{comma}\n{indent * (depth + 1)}{entry_json}\n{indent * depth}"
        f"{text[end - 1 :]}"
    )


def _span(text: str, steps: Sequence[str]) -> tuple[int, int]:
    begin = offset_of(text, list(steps))
    assert begin is not None, "the path was just followed"
    return begin, json.JSONDecoder().raw_decode(text, begin)[1]


def _format_value(text: str, value: JsonValue, depth: int) -> str:
    indent = detect_indent(text)
    first, *more = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return "\n".join([first, *(f"{indent * depth}{line}" for line in more)])
