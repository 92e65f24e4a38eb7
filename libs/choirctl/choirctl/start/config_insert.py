"""Add or remove entries in sections of config.json without touching any other byte of the file.

Used by `agent init`, `agent delete`, `model_key` and `config_set`.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.json_places import offset_of


def insert_entry(path: Path, section: str, name: str, entry: dict[str, object]) -> None:
    """Add `section.name` to the file atomically.

    Raises NotFound if there is no file, InvalidRequest if it is not JSON, Conflict if the name is taken.
    """
    insert_entries(path, [(section, name, entry)])


def insert_entries(path: Path, entries: Sequence[tuple[str, str, dict[str, object]]]) -> None:
    """Add several entries (section, name, value), all or none. Raises the errors of `insert_entry`."""
    text = _read(path)
    for section, name, entry in entries:
        text = with_entry(text, str(path), section, name, entry)
    replace_file(path, text)


def remove_entries(path: Path, entries: Sequence[tuple[str, str]]) -> None:
    """Remove several entries (section, name), all or none.

    Raises NotFound if the file or an entry does not exist.
    """
    text = _read(path)
    for section, name in entries:
        text = without_entry(text, str(path), section, name)
    replace_file(path, text)


def without_entry(text: str, file_name: str, section: str, name: str) -> str:
    """Return the text without an entry of a section; `file_name` is for errors. Pure."""
    before = json.loads(text)
    if name not in before.get(section, {}):
        raise NotFound(
            _("{file_name} has no {section}.{name}; nothing was changed.").format(
                file_name=file_name, section=section, name=name
            )
        )
    decoder = json.JSONDecoder()
    value = offset_of(text, [section, name])
    begin = offset_of(text, [section])
    assert begin is not None and value is not None, "the entry was just parsed"
    _rest, end = decoder.raw_decode(text, value)
    start = _end_before(text, begin, value)
    if text[start] == ",":
        result = text[:start] + text[end:]
    else:
        # the first entry: remove the comma after it as well
        rest = text[end:].lstrip()
        result = text[: start + 1] + (
            rest.removeprefix(",") if rest.startswith(",") else text[end:]
        )
    remaining = {key: value for key, value in before[section].items() if key != name}
    # parse the result again: nothing else may have changed
    assert json.loads(result) == {**before, section: remaining}, (
        "the edit changed another part of the file"
    )
    return result


def _end_before(text: str, begin: int, value: int) -> int:
    """Return the offset of the comma before the entry whose value is at `value`; of `{` for the first one."""
    decoder, last, at = json.JSONDecoder(), begin, begin + 1
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        _rest, at = decoder.raw_decode(text, at)
        at = text.index(":", at) + 1
        at += len(text[at:]) - len(text[at:].lstrip())
        if at == value:
            return last
        _rest, at = decoder.raw_decode(text, at)
        last = at + len(text[at:]) - len(text[at:].lstrip())
        at = last + 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(
            _("There is no {path}. `choirctl init` makes a first one.").format(path=path)
        ) from None


def with_entry(text: str, file_name: str, section: str, name: str, entry: dict[str, object]) -> str:
    """Return the text with the entry added at the end of its section; adds a missing section. Pure."""
    try:
        before = json.loads(text)
        text = text if section in before else _with_section(text, section)
        before = json.loads(text)
        entries = before[section]
    except (ValueError, TypeError, KeyError):
        raise InvalidRequest(
            _("{file_name} is no JSON object of sections; correct it first.").format(
                file_name=file_name
            )
        ) from None
    if not isinstance(entries, dict):
        raise InvalidRequest(
            _("{section!r} in {file_name} is not an object; correct it first.").format(
                section=section, file_name=file_name
            )
        )
    if name in entries:
        raise Conflict(
            _("{file_name} has {section}.{name} already; nothing was changed.").format(
                file_name=file_name, section=section, name=name
            )
        )
    begin = offset_of(text, [section])
    assert begin is not None, "the section was just parsed"
    _rest, end = json.JSONDecoder().raw_decode(text, begin)
    indent = detect_indent(text)
    entry_json = json.dumps({name: entry}, indent=indent or None, ensure_ascii=False)
    body = "\n".join(f"{indent}{line}" for line in entry_json.splitlines()[1:-1])
    inner = text[begin + 1 : end - 1].rstrip()
    comma = "," if entries else ""
    result = f"{text[: begin + 1]}{inner}{comma}\n{body}\n{indent}{text[end - 1 :]}"
    # parse the result again: nothing else may have changed
    assert json.loads(result) == {**before, section: {**entries, name: entry}}, (
        "the edit changed another part of the file"
    )
    return result


def _with_section(text: str, section: str) -> str:
    """Return the text of a JSON object with an empty section appended."""
    if not isinstance(json.loads(text), dict):
        raise TypeError(_("sections stand in an object"))
    body = text.rstrip()[:-1].rstrip()
    comma = "" if body.lstrip() == "{" else ","
    return f"{body}{comma}\n{detect_indent(text)}{json.dumps(section)}: {{}}\n}}\n"


def detect_indent(text: str) -> str:
    """Return the indentation of a JSON text; two spaces if it has none."""
    match = re.search(r"\n([ \t]+)\"", text)
    return match.group(1) if match else "  "


def replace_file(path: Path, text: str) -> None:
    """Replace a file's content atomically and keep its mode."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # before the rename: after a power failure the name must not lead to an empty file
            os.fsync(file.fileno())
        partial.chmod(path.stat().st_mode & 0o777)
        os.replace(partial, path)  # noqa: PTH105 the atomic rename is the point
    finally:
        partial.unlink(missing_ok=True)
