"""Read JSON arrays and JSON lines of any size, one record at a time.

The reader of arrays looks for the end of each record without parsing it, so that one that is broken does not
lose those after it. Memory is bounded by the largest record.
"""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from pydantic import JsonValue

from choir_common.i18n import _
from choirctl.imports.items import Omission

CHUNK_BYTES = 1_000_000
MAX_RECORD_CHARS = 100_000_000
_MARK = re.compile(r'["\\{}\[\]]')
_IN_TEXT = re.compile(r'["\\]')


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """A record, and its place for messages."""

    place: str
    value: dict[str, JsonValue]


def array_records(source: IO[bytes], name: str) -> Iterator[JsonRecord | Omission]:
    """Yield the objects of a JSON array, or the one object if the file is one."""
    number = 0
    for text in _object_texts(source):
        number += 1
        place = _("{name}, record {number}").format(name=name, number=number)
        if text is None:
            yield Omission(place, _("it is incomplete or too large"))
        else:
            yield _parse(text, place)
    if not number:
        yield Omission(name, _("it contains no records"))


def line_records(source: IO[bytes], name: str) -> Iterator[JsonRecord | Omission]:
    """Yield the objects of a file with one JSON object per line."""
    number = 0
    while line := source.readline(MAX_RECORD_CHARS):
        number += 1
        if text := line.decode("utf-8", errors="replace").strip():
            yield _parse(text, _("{name}, line {number}").format(name=name, number=number))


def _parse(text: str, place: str) -> JsonRecord | Omission:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Omission(place, _("it is not valid JSON"))
    if not isinstance(value, dict):
        return Omission(place, _("it is not a JSON object"))
    return JsonRecord(place, value)


def _object_texts(source: IO[bytes]) -> Iterator[str | None]:
    """Yield the text of each outermost object; None for one without an end or that is too large."""
    decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
    parts: list[str] = []
    size = depth = 0
    in_text = escaped = False
    while chunk := source.read(CHUNK_BYTES):
        text = decode(chunk)
        begin = position = 0
        while True:
            if escaped and position < len(text):
                position, escaped = position + 1, False
            match = (_IN_TEXT if in_text else _MARK).search(text, position)
            if match is None:
                break
            mark, position = match[0], match.end()
            if mark == "\\":
                escaped = in_text
            elif mark == '"':
                in_text = not in_text and depth > 0
            elif mark in "{[":
                if mark == "{" and depth == 0:
                    begin = match.start()
                depth += mark == "{" or depth > 0
            elif depth:
                depth -= 1
                if not depth:
                    yield "".join([*parts, text[begin:position]]) if size >= 0 else None
                    parts, size = [], 0
        if depth and size >= 0:
            parts.append(text[begin:])
            size += len(text) - begin
            if size > MAX_RECORD_CHARS:
                parts, size = [], -1
    if depth:
        yield None
