"""Requests of an ACP agent as calls of Choir's tools, and the results as its answers. Pure.

The paths are absolute in the protocol. `choir.fs.*` takes them as they are and refuses what leads out of the
workspace, so nothing is decided here.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from choir_common.escape_text import escape_hidden
from choir_common.wire.events import ToolResultCommitted, ToolStatus
from choir_common.wire.model import JsonObject

READ, WRITE, EXEC = "choir.fs.read", "choir.fs.write", "choir.exec"
PERMISSION = "permission"
NOTE = "These are the words of the harness. Choir has not checked them."
MAX_CONTENT = 2_000_000
"""Bytes of a file that is written by a request."""
MAX_COMMAND = 50_000
MAX_TITLE, MAX_INPUT, MAX_PATHS = 500, 10_000, 20
COMMAND_TIMEOUT_MS = 600_000
TERMINAL_BYTES = 100_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")


class InvalidRequest(ValueError):
    """The request does not fit the protocol, or is more than Choir permits."""


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call of a tool."""

    tool: str
    arguments: JsonObject


def read_call(params: JsonObject) -> RequestedCall:
    """Return the call for `fs/read_text_file`."""
    arguments: JsonObject = {"path": _text(params, "path")}
    line, limit = _count(params, "line"), _count(params, "limit")
    if line is not None or limit is not None:
        first = max(1, line or 1)
        arguments["start_line"] = first
        if limit is not None:
            arguments["end_line"] = first + max(1, limit) - 1
    return RequestedCall(READ, arguments)


def write_call(params: JsonObject) -> RequestedCall:
    """Return the call for `fs/write_text_file`."""
    content = _text(params, "content", is_empty_allowed=True)
    if len(content.encode("utf-8", "replace")) > MAX_CONTENT:
        raise InvalidRequest(f"content has more than {MAX_CONTENT} bytes")
    return RequestedCall(WRITE, {"path": _text(params, "path"), "content": content})


def command_call(params: JsonObject) -> RequestedCall:
    """Return the call for `terminal/create`: always without network, so that it asks nobody."""
    arguments = params.get("args") or []
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise InvalidRequest("args is a list of texts")
    command = _text(params, "command")
    words = [str(word) for word in arguments]
    line = shlex.join((command, *words)) if words else command
    variables = params.get("env") or []
    for variable in variables if isinstance(variables, list) else ():
        name = variable.get("name") if isinstance(variable, dict) else None
        value = variable.get("value") if isinstance(variable, dict) else None
        if not isinstance(name, str) or not isinstance(value, str) or not _VARIABLE.match(name):
            raise InvalidRequest("env has names and values of variables")
        line = f"export {name}={shlex.quote(value)}; {line}"
    directory = params.get("cwd")
    if isinstance(directory, str) and directory:
        line = f"cd {shlex.quote(directory)} && {{ {line}\n}}"
    if len(line) > MAX_COMMAND:
        raise InvalidRequest(f"the command has more than {MAX_COMMAND} characters")
    return RequestedCall(
        EXEC, {"command": line, "network": False, "timeout_ms": COMMAND_TIMEOUT_MS}
    )


def permission_call(params: JsonObject, titles: Mapping[str, str]) -> RequestedCall:
    """Return the call for `session/request_permission`; `titles` are those of its tool calls, by id.

    What a person reads has no invisible characters and says that it is only claimed.
    """
    call = params.get("toolCall")
    if not isinstance(call, dict) or not isinstance(params.get("options"), list):
        raise InvalidRequest("toolCall and options are missing")
    title = call.get("title") or titles.get(str(call.get("toolCallId")), "")
    return RequestedCall(
        PERMISSION,
        permission_arguments(
            title=title,
            kind=call.get("kind"),
            details=call.get("rawInput") if "rawInput" in call else call.get("content"),
            paths=_paths(call.get("locations")),
        ),
    )


def permission_arguments(
    *, title: JsonValue, kind: JsonValue, details: JsonValue, paths: tuple[str, ...] = ()
) -> JsonObject:
    """Return the arguments of a request for permission, as a person reads them."""
    arguments: JsonObject = {
        "title": _shown(title, MAX_TITLE) or "(no title)",
        "kind": _shown(kind, 40) or "other",
        "note": NOTE,
    }
    if details is not None:
        text = details if isinstance(details, str) else orjson.dumps(details).decode()
        arguments["input"] = _shown(text, MAX_INPUT)
    if paths:
        arguments["paths"] = [*paths]
    return arguments


def permission_outcome(params: JsonObject, status: ToolStatus) -> JsonObject:
    """Return the answer to a permission request: once, never always; `cancelled` if its turn is."""
    options = params.get("options")
    chosen_kind = "allow_once" if status == "success" else "reject_once"
    for option in options if isinstance(options, list) and status != "interrupted" else ():
        if isinstance(option, dict) and option.get("kind") == chosen_kind:
            return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return {"outcome": {"outcome": "cancelled"}}


def file_text(result: ToolResultCommitted) -> str | None:
    """Return the text of a file that was read; None if it is not complete, or no text.

    A part must not pass as the whole file: the harness could write it back.
    """
    output = result.output
    text = output.get("text")
    is_whole = not output.get("truncated") and result.artifact_ref is None
    return text if isinstance(text, str) and is_whole and result.status == "success" else None


def error_text(result: ToolResultCommitted) -> str:
    """Return why a call has no usable result."""
    if result.status == "success":
        return "the file is too large or no text; read a part of it with line and limit"
    return str(result.output.get("message") or result.output.get("code") or result.status)


def command_output(result: ToolResultCommitted, limit: int) -> JsonObject:
    """Return the answer to `terminal/output` after the command's end."""
    output = result.output
    streams = (output.get("stdout"), output.get("stderr"))
    text = "".join(stream for stream in streams if isinstance(stream, str))
    if not text and result.status != "success":
        text = error_text(result)
    data = text.encode()
    code = output.get("exit_code")
    return {
        # The protocol drops the beginning.
        "output": data[-limit:].decode("utf-8", "ignore") if limit else "",
        "truncated": len(data) > limit or result.artifact_ref is not None,
        "exitStatus": {
            "exitCode": code if isinstance(code, int) and code >= 0 else None,
            "signal": None if isinstance(code, int) and code >= 0 else "SIGKILL",
        },
    }


def _paths(locations: JsonValue) -> tuple[str, ...]:
    entries = locations if isinstance(locations, list) else []
    paths = (entry.get("path") for entry in entries[:MAX_PATHS] if isinstance(entry, dict))
    return tuple(_shown(path, MAX_TITLE) for path in paths if isinstance(path, str))


def _shown(value: JsonValue, limit: int) -> str:
    """Return a text for people, in which nothing is hidden."""
    if not isinstance(value, str):
        return ""
    cut = value if len(value) <= limit else f"{value[:limit]}… ({len(value)} characters)"
    return escape_hidden(cut)


def _text(params: JsonObject, name: str, *, is_empty_allowed: bool = False) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not (value or is_empty_allowed) or "\x00" in value:
        raise InvalidRequest(f"{name} is no text")
    return value


def _count(params: JsonObject, name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000_000:
        raise InvalidRequest(f"{name} is no valid number")
    return value
