"""Read what a user message orders of the rehearsal model in so many words. Called by `choose`. Pure.

For people and measurements, with and without a score:
    #tools=N                    call a cheap tool N times in a row, one call per model call
    #tool=NAME {json}           which tool #tools calls, and with what
    #delay=MS                   wait before each answer
    #error=429  #error=500x3    fail the next request (or three) of this turn; x0 fails always
    /tool NAME {json}           call that tool once and report what it answered
    use the tool NAME with {json}    the same (also: run, call)
"""

import json
import re
from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.wire.json import JsonObject
from choir_local.rehearsal.score import Call, ErrorStep

MOST_TOOLS = 1000
MOST_DELAY_MS = 600_000.0

_TOOLS = re.compile(r"#tools=(\d+)")
_TOOL = re.compile(r"#tool=([\w.-]+)")
_DELAY = re.compile(r"#delay=(\d+(?:\.\d+)?)")
_ERROR = re.compile(r"#error=([45]\d\d)(?:x(\d+))?")
_ORDER = re.compile(
    r"(?:^|\s)(?:/tool|(?:run|use|call)\s+(?:the\s+)?tool)\s+[`\"']?([\w.-]+\w)[`\"']?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Directives:
    """What the user ordered; nothing ordered is the default."""

    tools: int = 0
    tool: Call | None = None
    """What `#tools` calls, if `#tool` said so."""
    order: Call | None = None
    """The one tool a sentence or `/tool` ordered."""
    delay_ms: float = 0
    error: ErrorStep | None = None
    complaint: str | None = None
    """What is wrong with the order, in words for the user."""


def read_directives(text: str) -> Directives:
    """Find the directives in a user message."""
    if "#" not in text and "tool" not in text.lower():
        return Directives()
    tools, delay, error = _TOOLS.search(text), _DELAY.search(text), _ERROR.search(text)
    tool, tool_complaint = _read_call(_TOOL, text)
    order, order_complaint = _read_call(_ORDER, text)
    return Directives(
        tools=min(int(tools.group(1)), MOST_TOOLS) if tools else 0,
        tool=tool,
        order=order,
        delay_ms=min(float(delay.group(1)), MOST_DELAY_MS) if delay else 0,
        error=ErrorStep(status=int(error.group(1)), times=int(error.group(2) or 1))
        if error
        else None,
        complaint=tool_complaint or order_complaint,
    )


def _read_call(pattern: re.Pattern[str], text: str) -> tuple[Call | None, str | None]:
    found = pattern.search(text)
    if found is None:
        return None, None
    name = found.group(1)[:64]
    arguments, complaint = _read_arguments(name, text[found.end() :])
    return Call(name=name, arguments=arguments), complaint


def _read_arguments(name: str, rest: str) -> tuple[JsonObject, str | None]:
    """Read the JSON object that follows the tool's name, if one does."""
    between, brace, _ = rest.partition("{")
    if not brace or len(between) > 40 or "#" in between:
        return {}, None
    try:
        value: JsonValue = json.JSONDecoder().raw_decode(rest, len(between))[0]
    except ValueError as error:
        return {}, f"The arguments for {name} are no JSON object: {error}."
    return (value, None) if isinstance(value, dict) else ({}, f"{name} needs a JSON object.")
