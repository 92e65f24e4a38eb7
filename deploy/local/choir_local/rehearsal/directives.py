"""Parser of the directives for the rehearsal model in a user message. Pure. Used by `answers`.

For manual use and measurements, with and without a score:
    #tools=N                    call a cheap tool N times in a row, one call per model call
    #tool=NAME {json}           the tool that #tools calls, and its arguments
    #delay=MS                   wait before each answer
    #stream=MS                  pause between the parts of a streamed answer
    #error=429  #error=500x3    fail the next request (or three) of this turn; x0 fails always
    #hang                       never answer
    /tool NAME {json}           call that tool once and report its result
    use the tool NAME with {json}    the same (also: run, call)

Core jobs of the edge lane, any number of them in one message, each up to the end of its line:
    #spawn NAME: TASK           start a core job; TASK may contain directives for the job
    #inject NAME: TEXT          send it more text
    #cancel NAME                stop it
    #jobs                       list all jobs

In a core job:
    #say TEXT                   report TEXT as progress before anything else
    #need TEXT                  ask for TEXT, and continue when it has been injected
"""

import json
import re
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_local.rehearsal.score import ErrorStep, ScriptedCall

MAX_TOOL_CALLS = 1000
MAX_DELAY_MS = 600_000.0

_TOOLS = re.compile(r"#tools=(\d+)")
_TOOL = re.compile(r"#tool=([\w.-]+)")
_DELAY = re.compile(r"#delay=(\d+(?:\.\d+)?)")
_STREAM = re.compile(r"#stream=(\d+(?:\.\d+)?)")
_ERROR = re.compile(r"#error=([45]\d\d)(?:x(\d+))?")
_HANG = re.compile(r"#hang\b")
_REPORT = re.compile(r"#(say|need)\s+([^\n#]+)")
_ORDER = re.compile(
    r"(?:^|\s)(?:/tool|(?:run|use|call)\s+(?:the\s+)?tool)\s+[`\"']?([\w.-]+\w)[`\"']?",
    re.IGNORECASE,
)
_JOB = re.compile(
    r"#(?:(spawn|inject)\s+([\w-]+)\s*:[ \t]*([^\n]+?)|(cancel)\s+([\w-]+)|(jobs)\b)"
    r"(?=\s*(?:#spawn|#inject|#cancel|#jobs|\n|$))"
)

JobVerb = Literal["spawn", "inject", "cancel", "list"]
_VERBS: dict[str, JobVerb] = {
    "spawn": "spawn", "inject": "inject", "cancel": "cancel", "jobs": "list",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobDirective:
    """An action on a core job."""

    verb: JobVerb
    name: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Directives:
    """The directives of a user message; by default none."""

    tools: int = 0
    tool: ScriptedCall | None = None
    """The call that `#tools` repeats, if `#tool` names one."""
    ordered_call: ScriptedCall | None = None
    """The single tool call requested by a sentence or `/tool`."""
    jobs: tuple[JobDirective, ...] = ()
    reports: tuple[tuple[str, str], ...] = ()
    """Reports that a core job sends first: `say` or `need`, and the text."""
    delay_ms: float = 0
    chunk_delay_ms: float = 0
    error: ErrorStep | None = None
    hang: bool = False
    error_text: str | None = None
    """An error in a directive, as text for the user."""


def read_directives(text: str) -> Directives:
    """Return the directives in a user message."""
    if "#" not in text and "tool" not in text.lower():
        return Directives()
    jobs = tuple(_job_order(match) for match in _JOB.finditer(text))
    # directives inside a job's task are for the job
    text = _JOB.sub(" ", text) if jobs else text
    tools, error = _TOOLS.search(text), _ERROR.search(text)
    tool, tool_complaint = _read_call(_TOOL, text)
    order, order_complaint = _read_call(_ORDER, text)
    return Directives(
        tools=min(int(tools.group(1)), MAX_TOOL_CALLS) if tools else 0,
        tool=tool,
        ordered_call=order,
        jobs=jobs,
        reports=tuple((kind, words.strip()) for kind, words in _REPORT.findall(text)),
        delay_ms=_read_ms(_DELAY, text),
        chunk_delay_ms=_read_ms(_STREAM, text),
        error=ErrorStep(status=int(error.group(1)), times=int(error.group(2) or 1))
        if error
        else None,
        hang=_HANG.search(text) is not None,
        error_text=tool_complaint or order_complaint,
    )


def _read_ms(pattern: re.Pattern[str], text: str) -> float:
    match = pattern.search(text)
    return min(float(match.group(1)), MAX_DELAY_MS) if match else 0


def _job_order(match: re.Match[str]) -> JobDirective:
    task, name, text, cancel, cancelled, listed = match.groups(default="")
    return JobDirective(_VERBS[task or cancel or listed], name or cancelled, text)


def _read_call(pattern: re.Pattern[str], text: str) -> tuple[ScriptedCall | None, str | None]:
    match = pattern.search(text)
    if match is None:
        return None, None
    name = match.group(1)[:64]
    arguments, complaint = _read_arguments(name, text[match.end() :])
    return ScriptedCall(name=name, arguments=arguments), complaint


def _read_arguments(name: str, rest: str) -> tuple[JsonObject, str | None]:
    """Parse the JSON object after the tool's name, if there is one."""
    between, brace, _ = rest.partition("{")
    if not brace or len(between) > 40 or "#" in between:
        return {}, None
    try:
        value: JsonValue = json.JSONDecoder().raw_decode(rest, len(between))[0]
    except ValueError as error:
        return {}, f"The arguments for {name} are not a JSON object: {error}."
    return (value, None) if isinstance(value, dict) else ({}, f"{name} needs a JSON object.")
