"""Validation of config.json before anything is started, with the line and field of each error.

Called by `up`, `doctor`, `agent init` and `agent delete`. Control validates the file again when it starts;
this check fails earlier, before any process runs.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from choir_common.errors import StartupError
from choir_common.wire.config import Config
from choir_common.wire.config_messages import setting_error_message
from choir_common.wire.validation_messages import error_path, format_errors

_WHITESPACE = " \t\r\n"
MAX_FAULTS = 20
REMEDY = "Correct it and start again."


def read_config(path: Path) -> Config:
    """Read and check config.json.

    Raises StartupError naming the file, the line and the field.
    """
    text = _read(path)
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        raise StartupError(_faults(path, text, error)) from error


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line number (from 1) of the value at `path`, or of its deepest existing parent.

    None if the text is not JSON.
    """
    at = offset_of(text, path)
    return None if at is None else text.count("\n", 0, at) + 1


def offset_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the offset of the value at `path`, or of its deepest existing parent; None if it is not JSON."""
    decoder = json.JSONDecoder()
    at = _skip(text, 0)
    try:
        for step in path:
            child = _child(decoder, text, at, step)
            if child is None:
                break
            at = child
    except (ValueError, IndexError):
        return None
    return at


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise StartupError(f"There is no {path}. `choirctl init` makes a first one.") from error
    except UnicodeDecodeError as error:
        raise StartupError(f"{path} is not UTF-8 text (byte {error.start}).") from error
    except OSError as error:
        raise StartupError(f"Cannot read {path}: {error.strerror}.") from error


def _faults(path: Path, text: str, error: ValidationError) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as syntax_error:
        place = f"{path}, line {syntax_error.lineno}, column {syntax_error.colno}"
        return f"{place}: not JSON ({syntax_error.msg}). {REMEDY}"
    faults = []
    for fault in error.errors(include_url=False):
        line, field = line_of(text, fault["loc"]), error_path(fault, "the file")
        faults.append(f"line {line}, field `{field}`: {setting_error_message(fault)}")
    return format_errors(f"{path} is not valid", faults, REMEDY, MAX_FAULTS)


def _skip(text: str, at: int) -> int:
    while text[at] in _WHITESPACE:
        at += 1
    return at


def _child(decoder: json.JSONDecoder, text: str, at: int, step: str | int) -> int | None:
    """Return the offset of the value under `step` in the object or array at offset `at`, if it is
    there."""
    closing = {"{": "}", "[": "]"}.get(text[at])
    place, index = _skip(text, at + 1), 0
    while closing is not None and text[place] != closing:
        key: str | int = index
        if closing == "}":
            key, place = decoder.raw_decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        if key == step:
            return place
        _, place = decoder.raw_decode(text, place)
        place = _skip(text, place)
        place = _skip(text, place + 1) if text[place] == "," else place
        index += 1
    return None
