"""Rendering of an approval request as a difference: all that the digest covers, and nothing else.

Pure. choirctl colours the lines; control puts the first of them into the conversation. An agent's text can
neither move the cursor nor hide anything: every invisible character is escaped.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from choir_common.visible_text import make_visible
from choir_common.wire.json import JsonObject

MAX_GIST = 160
# Basis fields that are digests; people compare only the first characters.
DIGESTS = ("config",)
WHO_READS = 12


class Mark(StrEnum):
    """The kind of a line."""

    PLAIN = ""
    HEAD = "head"
    """A heading for the lines below it."""
    PLACE = "place"
    """The position of a change in a file."""
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is printed; `OLD` begins with a minus sign, `NEW` with a plus sign."""

    mark: Mark
    text: str


def gist_of(request_type: str, payload: JsonObject) -> str:
    """Return a short description of the request."""
    match request_type:
        case "call":
            what = f"the use of {payload.get('tool')}"
        case "skill" | "tool":
            what = f"the {request_type} {_name(payload)}"
        case "config_change":
            what = f"the setting {', '.join(_keys(payload.get('patch'))) or 'nothing'}"
        case "repo_change":
            what = f"the merge of {payload.get('branch')}"
        case _:
            what = f"a {request_type}"
    return _cut(plainly(what), MAX_GIST)


def lines_of(request_type: str, payload: JsonObject, basis: JsonObject) -> list[Line]:
    """Return everything that the decision covers: the changes first, then the other fields by name."""
    left = {f"{name}": value for name, value in payload.items()}
    under = {f"{name}": value for name, value in basis.items()}
    changed = list(_changes(request_type, left, under))
    reason = left.pop("reason", None)
    said = [] if reason is None else list(_named("reason", reason))
    rest = [line for name, value in left.items() for line in _named(name, value)]
    stands = [line for name, value in under.items() for line in _named(name, value)]
    if stands:
        stands.insert(0, Line(Mark.HEAD, "it stands on"))
    return [*said, *changed, *rest, *stands]


def plainly(text: str) -> str:
    """Return a text with every character escaped that is not visible as itself."""
    shown = make_visible(text, keep="\t", joiners=False)
    return "".join(c if c == "\t" or _is_known(c) else f"<U+{ord(c):04X}>" for c in shown)


def _changes(
    request_type: str, left: dict[str, JsonValue], under: dict[str, JsonValue]
) -> Iterator[Line]:
    """Yield the difference, and remove from both arguments what it shows completely."""
    match request_type, under.get("files"), under.get("changes"), under.get("diff"):
        case (("skill" | "tool"), dict(files), _, _):
            del under["files"]
            # The files are generated from these fields alone, and control compares them again before it
            # commits.
            for name in ("spec", "manifest", "behaviour"):
                left.pop(name, None)
            for path, text in files.items():
                yield Line(Mark.HEAD, f"new file {plainly(path)}")
                yield from _added(str(text))
        case "config_change", _, list(changes), _:
            del under["changes"]
            left.pop("patch", None)
            for change in changes:
                yield from _setting(change)
        case "repo_change", _, _, str(diff):
            del under["diff"]
            yield from (
                Line(Mark.PLAIN, plainly(line)) for line in _split(under.pop("diffstat", ""))
            )
            yield from (_of_diff(line) for line in _split(diff))
        case "call", _, _, _:
            yield Line(Mark.HEAD, f"call {_word(left.pop('tool', None))}")
            yield from _added(_json(left.pop("input", None)))
        case _:
            return


def _setting(change: JsonValue) -> Iterator[Line]:
    if not isinstance(change, dict):
        yield Line(Mark.PLAIN, _json(change))
        return
    path = change.get("path")
    steps = [str(step) for step in path] if isinstance(path, list) else []
    yield Line(Mark.HEAD, f"config.json: {plainly('.'.join(steps))}")
    for name, mark, sign in (("before", Mark.OLD, "-"), ("after", Mark.NEW, "+")):
        if name in change:
            yield from (Line(mark, f"{sign}{line}") for line in _split(_json(change[name])))


def _of_diff(line: str) -> Line:
    text = plainly(line)
    if line.startswith(("diff ", "--- ", "+++ ")):
        return Line(Mark.HEAD, text)
    marks = {"@": Mark.PLACE, "-": Mark.OLD, "+": Mark.NEW}
    return Line(marks.get(line[:1], Mark.PLAIN), text)


def _added(text: str) -> Iterator[Line]:
    return (Line(Mark.NEW, f"+{plainly(line)}") for line in _split(text))


def _named(name: str, value: JsonValue) -> Iterator[Line]:
    if isinstance(value, dict | list):
        yield Line(Mark.PLAIN, f"{plainly(name)}:")
        yield from (Line(Mark.PLAIN, f"  {line}") for line in _split(_json(value)))
        return
    first, *more = map(plainly, _split(value)) if isinstance(value, str) else (_json(value),)
    yield Line(Mark.PLAIN, f"{plainly(name)}: {first[:WHO_READS] if name in DIGESTS else first}")
    # Indented, so that no line can look like a line of the difference.
    yield from (Line(Mark.PLAIN, f"  {line}") for line in more)


def _split(text: JsonValue) -> list[str]:
    # Split at line feeds only: other line separators are escaped.
    return str(text).removesuffix("\n").split("\n")


def _word(value: JsonValue) -> str:
    return plainly(value) if isinstance(value, str) else _json(value)


def _json(value: JsonValue) -> str:
    return plainly_lines(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True))


def plainly_lines(text: str) -> str:
    """Return a text of several lines with every invisible character escaped."""
    return "\n".join(plainly(line) for line in text.split("\n"))


def _name(payload: JsonObject) -> str:
    for holder in (payload.get("spec"), payload.get("manifest")):
        if isinstance(holder, dict):
            inner = holder.get("llm")
            named: Mapping[str, JsonValue] = inner if isinstance(inner, dict) else holder
            return str(named.get("name", "without a name"))
    return str(payload.get("name", "without a name"))


def _keys(patch: JsonValue, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(patch, dict):
        if path:
            yield ".".join(path)
        return
    for name, inner in patch.items():
        yield from _keys(inner, (*path, name))


def _is_known(character: str) -> bool:
    # Private and unassigned characters look different in each font, so they are escaped.
    return unicodedata.category(character)[0] != "C"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
