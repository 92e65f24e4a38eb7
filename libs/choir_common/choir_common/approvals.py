"""Digest and display of approval requests, identical in control and choirctl. Pure.

The digest identifies the exact content of a request. Control computes it when it stores a request and again
before it applies one. choirctl computes it too, and shows nothing that the digest does not cover.

The display is a difference: all that the digest covers, and nothing else. choirctl colours the lines;
control puts the first of them into the conversation. An agent's text can neither move the cursor nor hide
anything: every invisible character is spelled out. Does not decide and does not store requests. See
docs/design/approvals.md.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from pydantic import JsonValue

from choir_common.escape_text import spell_uncertain
from choir_common.eventlog.chain import canonical_json
from choir_common.wire.model import JsonObject

_SPELLED = re.compile(r"<U\+[0-9A-F]{4,6}>")

MAX_SUMMARY_CHARS = 160
MAX_COMPARED_LINES = 400
"""Lines of a tool's definition that are compared one by one."""
CONTENT_TOOLS = "tools of Choir for its resources and prompts"
"""Heading; those of a server's tools begin with `tool `."""
# Basis fields that are digests; people compare only the first characters.
DIGEST_FIELDS = ("config",)
SHOWN_DIGEST_CHARS = 12


class LineKind(StrEnum):
    """The kind of a line."""

    PLAIN = ""
    HEAD = "head"
    """A heading for the lines below it."""
    PLACE = "place"
    """The position of a change in a file."""
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line as it is printed; `OLD` begins with a minus sign, `NEW_PREFIX` with a plus sign."""

    mark: LineKind
    text: str


def request_digest(request_type: str, payload: JsonObject, basis: JsonObject | None = None) -> str:
    """Return the SHA-256 of the canonical JSON of a request and of the basis it was shown with.

    Any change of either changes the digest.
    """
    content: JsonObject = {"request_type": request_type, "payload": payload}
    if basis:
        content["basis"] = basis
    return hashlib.sha256(canonical_json(content)).hexdigest()


def request_summary(request_type: str, payload: JsonObject) -> str:
    """Return a short description of the request."""
    subject = _short_subject(request_type, payload)
    match request_type:
        case "call":
            what = f"the use of {subject}"
        case "mcp_tools":
            what = f"the tools of the MCP server {subject}"
        case "mcp_question":
            what = f"an answer to a question of the MCP server {subject}"
        case "skill" | "tool":
            what = f"the {request_type} {subject}"
        case "config_change":
            what = f"the setting {subject or 'nothing'}"
        case "repo_change":
            what = f"the merge of {subject}"
        case _:
            what = f"a {request_type}"
    return _cut(escape_line(what), MAX_SUMMARY_CHARS)


def request_subject(request_type: str, payload: JsonObject) -> str:
    """Return the name of what the request is about: a tool, a skill, settings or a branch."""
    return _cut(escape_line(_short_subject(request_type, payload)), MAX_SUMMARY_CHARS)


def request_lines(request_type: str, payload: JsonObject, basis: JsonObject) -> list[DiffLine]:
    """Return everything that the decision covers: the changes first, then the other fields by name."""
    remaining, under = _spell_literals(payload), _spell_literals(basis)
    change_lines = list(_changes(request_type, remaining, under))
    reason = remaining.pop("reason", None)
    reason_lines = [] if reason is None else list(_named("reason", reason))
    other_lines = [line for name, value in remaining.items() for line in _named(name, value)]
    stands = [line for name, value in under.items() for line in _named(name, value)]
    if stands:
        stands.insert(0, DiffLine(LineKind.HEAD, "based on"))
    return [*reason_lines, *change_lines, *other_lines, *stands]


def escape_line(text: str) -> str:
    """Return a text with every character spelled out that is not visible as itself."""
    return spell_uncertain(text)


def _changes(
    request_type: str, remaining: dict[str, JsonValue], under: dict[str, JsonValue]
) -> Iterator[DiffLine]:
    """Yield the difference, and remove from both arguments what it shows completely."""
    match request_type, under.get("files"), under.get("changes"), under.get("diff"):
        case (("skill" | "tool"), dict(files), _, _):
            del under["files"]
            # The files are generated from these fields alone, and control compares them again before it
            # commits.
            for name in ("spec", "manifest", "behaviour"):
                remaining.pop(name, None)
            for path, text in files.items():
                yield DiffLine(LineKind.HEAD, f"new file {escape_line(path)}")
                yield from _added(str(text))
        case "config_change", _, list(changes), _:
            del under["changes"]
            remaining.pop("patch", None)
            for change in changes:
                yield from _setting(change)
        case "repo_change", _, _, str(diff):
            del under["diff"]
            yield from (
                DiffLine(LineKind.PLAIN, escape_line(line))
                for line in _split(under.pop("diffstat", ""))
            )
            yield from (_of_diff(line) for line in _split(diff))
        case "mcp_tools", _, _, _:
            yield from _server_tools(remaining, under)
        case "mcp_question", _, _, _:
            yield from _server_question(remaining)
        case "call", _, _, _:
            why = under.pop("why", None)
            if why is not None:
                yield from _named("why", why)
            yield DiffLine(LineKind.HEAD, f"call {_word(remaining.pop('tool', None))}")
            yield from _added(_json(remaining.pop("input", None)))
        case _:
            return


def _server_tools(
    remaining: dict[str, JsonValue], under: dict[str, JsonValue]
) -> Iterator[DiffLine]:
    """Yield every definition of a server, line by line, as a difference from those approved before."""
    new, approved = _tool_sections(remaining), under.pop("approved", None)
    old = _tool_sections(dict(approved)) if isinstance(approved, dict) else {}
    for head in dict.fromkeys((*new, *old)):
        before, after = old.get(head, []), new.get(head, [])
        note = "" if head in new else " (no longer offered)"
        yield DiffLine(LineKind.HEAD, f"{head}{note}")
        yield from _differences(before, after)


def _server_question(remaining: dict[str, JsonValue]) -> Iterator[DiffLine]:
    """Yield a question: every line of the server behind a mark, so that none can pass as Choir's."""
    server, tool = (_word(remaining.pop(name, None)) for name in ("server", "tool"))
    yield DiffLine(LineKind.HEAD, f"MCP server {server}, during a call of {tool}, writes:")
    yield from (
        DiffLine(LineKind.NEW, f"> {escape_line(line)}")
        for line in _split(remaining.pop("message", None))
    )
    url, form = remaining.pop("url", None), remaining.pop("form", None)
    if url is not None:
        yield DiffLine(LineKind.HEAD, "It wants you to open this address. Choir does not open it:")
        yield DiffLine(LineKind.NEW, f"> {_word(url)}")
    if form is not None:
        yield DiffLine(LineKind.HEAD, "It asks for these values, by its own schema:")
        yield from (DiffLine(LineKind.NEW, f"> {line}") for line in _split(_json(form)))


def _differences(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    blocks: Sequence[tuple[str, int, int, int, int]]
    if max(len(before), len(after)) > MAX_COMPARED_LINES and before != after:
        # Comparing long lists takes a time that grows with the square of their length.
        blocks = [("replace", 0, len(before), 0, len(after))]
    else:
        blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for tag, old_from, old_to, new_from, new_to in blocks:
        if tag == "equal":
            yield from (DiffLine(LineKind.PLAIN, f" {line}") for line in after[new_from:new_to])
            continue
        yield from (DiffLine(LineKind.OLD, f"-{line}") for line in before[old_from:old_to])
        yield from (DiffLine(LineKind.NEW, f"+{line}") for line in after[new_from:new_to])


def _tool_sections(payload: dict[str, JsonValue]) -> dict[str, list[str]]:
    """Return what runs, and the definitions, as lines by heading; remove them from the payload."""
    server = _word(payload.pop("server", None))
    runs: dict[str, JsonValue] = {
        name: payload.pop(name) for name in ("command", "url") if name in payload
    }
    sections = {f"MCP server {server}": list(_field_lines(runs))}
    content = payload.pop("content_tools", None)
    if content:
        sections[CONTENT_TOOLS] = list(map(_word, content if isinstance(content, list) else []))
    tools = payload.pop("tools", None)
    for tool in tools if isinstance(tools, list) else []:
        fields = dict(tool) if isinstance(tool, dict) else {"tool": tool}
        sections[f"tool {_word(fields.pop('name', None))}"] = list(_field_lines(fields))
    return sections


def _field_lines(fields: Mapping[str, JsonValue]) -> Iterator[str]:
    for name, value in fields.items():
        first, *more = map(escape_line, _split(value if isinstance(value, str) else _json(value)))
        yield f"{escape_line(name)}: {first}"
        # Indented, so that no line can look like another field.
        yield from (f"  {line}" for line in more)


def _setting(change: JsonValue) -> Iterator[DiffLine]:
    if not isinstance(change, dict):
        yield DiffLine(LineKind.PLAIN, _json(change))
        return
    path = change.get("path")
    steps = [str(step) for step in path] if isinstance(path, list) else []
    yield DiffLine(LineKind.HEAD, f"config.json: {escape_line('.'.join(steps))}")
    for name, mark, sign in (("before", LineKind.OLD, "-"), ("after", LineKind.NEW, "+")):
        if name in change:
            yield from (DiffLine(mark, f"{sign}{line}") for line in _split(_json(change[name])))


def _of_diff(line: str) -> DiffLine:
    text = escape_line(line)
    if line.startswith(("diff ", "--- ", "+++ ")):
        return DiffLine(LineKind.HEAD, text)
    marks = {"@": LineKind.PLACE, "-": LineKind.OLD, "+": LineKind.NEW}
    return DiffLine(marks.get(line[:1], LineKind.PLAIN), text)


def _added(text: str) -> Iterator[DiffLine]:
    return (DiffLine(LineKind.NEW, f"+{escape_line(line)}") for line in _split(text))


def _named(name: str, value: JsonValue) -> Iterator[DiffLine]:
    if isinstance(value, dict | list):
        yield DiffLine(LineKind.PLAIN, f"{escape_line(name)}:")
        yield from (DiffLine(LineKind.PLAIN, f"  {line}") for line in _split(_json(value)))
        return
    first, *more = map(escape_line, _split(value)) if isinstance(value, str) else (_json(value),)
    yield DiffLine(
        LineKind.PLAIN,
        f"{escape_line(name)}: {first[:SHOWN_DIGEST_CHARS] if name in DIGEST_FIELDS else first}",
    )
    # Indented, so that no line can look like a line of the difference.
    yield from (DiffLine(LineKind.PLAIN, f"  {line}") for line in more)


def _split(text: JsonValue) -> list[str]:
    # Split at line feeds only: other line separators are escaped.
    return str(text).removesuffix("\n").split("\n")


def _word(value: JsonValue) -> str:
    return escape_line(value) if isinstance(value, str) else _json(value)


def _json(value: JsonValue) -> str:
    return escape_lines(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True))


def has_spelled_characters(text: str) -> bool:
    """Return whether a shown text contains a character that was spelled out."""
    return _SPELLED.search(text) is not None


def escape_lines(text: str) -> str:
    """Return a text of several lines with every invisible character escaped."""
    return "\n".join(escape_line(line) for line in text.split("\n"))


def _spell_literals(values: JsonObject) -> JsonObject:
    """Return a copy in which no text looks like a character that is spelled out, such as `<U+200B>`."""
    return {_spell_literal(name): _copy_spelled(value) for name, value in values.items()}


def _copy_spelled(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _spell_literal(value)
        case dict():
            return _spell_literals(value)
        case list():
            return [_copy_spelled(item) for item in value]
        case _:
            return value


def _spell_literal(text: str) -> str:
    return text.replace("<U+", "<U+003C>U+")


def _short_subject(request_type: str, payload: JsonObject) -> str:
    # cut before it is spelled out, which takes long for a long text
    return _spell_literal(_subject(request_type, payload)[: MAX_SUMMARY_CHARS + 1])


def _subject(request_type: str, payload: JsonObject) -> str:
    match request_type:
        case "call":
            return str(payload.get("tool"))
        case "mcp_tools" | "mcp_question":
            return str(payload.get("server"))
        case "skill" | "tool":
            return _name(payload)
        case "config_change":
            return ", ".join(_keys(payload.get("patch")))
        case "repo_change":
            return str(payload.get("branch"))
        case _:
            return ""


def _name(payload: JsonObject) -> str:
    for holder in (payload.get("spec"), payload.get("manifest")):
        if isinstance(holder, dict):
            inner = holder.get("llm")
            properties: Mapping[str, JsonValue] = inner if isinstance(inner, dict) else holder
            return str(properties.get("name", "(no name)"))
    return str(payload.get("name", "(no name)"))


def _keys(patch: JsonValue, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(patch, dict):
        if path:
            yield ".".join(path)
        return
    for name, inner in patch.items():
        yield from _keys(inner, (*path, name))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
