"""State of a conversation, derived from the messages of a chat request. Pure.

The source of a request is in the first line of the first message, where the agent's instructions begin:

| lane | the first line contains (ignoring case) |
|---|---|
| compaction | `fold` or `memory_delta`: "Fold the following events into ..." |
| summary | `sum up` or `summary`, and then `session`: "Sum up the session ..." |
| core | `core job` or `core lane`: "You are a core job of ..." |
| edge | `edge lane`: "You are the edge lane of ..." |

The first match counts, since a compaction may name the lane it is for. An edge lane that has something to
report, instead of a user's message to answer, is `report`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from choir_common.wire.memory_recall import COLLECTIONS_HEADING, REMINDERS_HEADING
from choir_common.wire.model import JsonObject
from choir_common.wire.prompt_marks import (
    REPORT_HEADING,
    SENT_LINE,
    SKILL_INPUT_HEADING,
    SUMMARY_HEADING,
    TOOL_PICTURES_HEADING,
)

Lane = Literal["edge", "core", "report", "compaction", "summary"]

_MARKS: tuple[tuple[Lane, re.Pattern[str]], ...] = (
    ("compaction", re.compile(r"\bfold\b|memory_delta", re.IGNORECASE)),
    ("summary", re.compile(r"\b(sum up|summar\w+)\b.*\bsession\b", re.IGNORECASE)),
    ("core", re.compile(r"\bcore (job|lane)\b", re.IGNORECASE)),
    ("edge", re.compile(r"\bedge lane\b", re.IGNORECASE)),
)
SYSTEM = ("system", "developer")
CHOIR_PREFIX = "[Choir]"
REMARKS_OF_MEMORY = re.compile(
    rf"\n\n(?:{re.escape(REMINDERS_HEADING)}|{re.escape(COLLECTIONS_HEADING)})"
)
"""Where the reminders and collections begin that memory appends to a user's text."""


def lane_of(first_message: str) -> Lane | None:
    """Return the source by the first line of a request's first message, or None if it is unknown."""
    line = first_message.strip().partition("\n")[0]
    return next((lane for lane, mark in _MARKS if mark.search(line)), None)


class _LenientModel(BaseModel):
    # Clients send more fields than these, and new ones every year.
    model_config = ConfigDict(frozen=True, extra="ignore")


class TextPart(_LenientModel):
    """A part of a message's content; only text is read."""

    text: str = ""


class CalledFunction(_LenientModel):
    """The function of a tool call."""

    name: str
    arguments: str = ""


class CalledTool(_LenientModel):
    """A tool call in an assistant message."""

    id: str
    function: CalledFunction


class ChatMessage(_LenientModel):
    """One message of the conversation."""

    role: str
    content: str | tuple[TextPart, ...] | None = None
    tool_calls: tuple[CalledTool, ...] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Return the content as text."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return " ".join(part.text for part in self.content)


class OfferedFunction(_LenientModel):
    """The function of an offered tool."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None


class OfferedTool(_LenientModel):
    """A tool that the model may call."""

    function: OfferedFunction


class StreamOptions(_LenientModel):
    """Options of a stream."""

    include_usage: bool = False


class ChatRequest(_LenientModel):
    """The body of `POST /v1/chat/completions`."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[OfferedTool, ...] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    response_format: JsonValue = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool in this turn; `name` is the name on the wire."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RehearsalTurn:
    """State of a conversation in its current turn.

    A turn begins with the last user message. One that begins with `[Choir]` and has something to report comes
    from the agent itself, and quotes that. A core job, a compaction and a summary are one turn from their
    first to their last message.
    """

    lane: Lane | None
    user_text: str
    """Subject of this turn; in a core job its briefing and all injected text."""
    users: int
    """Number of user messages so far, including this one."""
    answers: int
    """Number of assistant messages since the turn began, which are the steps already played."""
    results: tuple[ToolResult, ...]
    last_role: str
    system_text: str
    """Text of the agent's runtime: instructions, earlier record, skill input and memory's reminders."""
    tools: tuple[OfferedFunction, ...]

    @property
    def own_text(self) -> str:
        """Return the text without Choir's remarks (corrections, replies) and their quotations."""
        if not self.user_text.startswith(CHOIR_PREFIX):
            return self.user_text
        lines = self.user_text.splitlines()
        return "\n".join(line for line in lines if not line.startswith((CHOIR_PREFIX, ">")))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Return the names of the offered tools, as on the wire."""
        return tuple(tool.name for tool in self.tools)


def read_turn(request: ChatRequest) -> RehearsalTurn:
    """Return the state of the conversation in `request`."""
    messages = request.messages
    lane = lane_of(messages[0].text) if messages else None
    has_task_in_system = lane in ("core", "compaction", "summary")
    start = _first_after_head(messages) if has_task_in_system else _newest_start(messages)
    since = [message for message in messages[start:] if not _is_handed(message)]
    texts = [m.text for m in since if m.role == "user" or (has_task_in_system and m.role in SYSTEM)]
    text = (
        "\n".join(texts)
        if has_task_in_system
        else SENT_LINE.sub("", REMARKS_OF_MEMORY.split("".join(texts[:1]), 1)[0])
    )
    report = not has_task_in_system and _is_report(text)
    return RehearsalTurn(
        lane="report" if report else lane,
        user_text=_quoted_in(text) if report else text,
        users=1 if has_task_in_system else sum(_is_asked(message) for message in messages),
        answers=sum(message.role == "assistant" for message in since),
        results=_results(since),
        last_role=messages[-1].role if messages else "user",
        system_text="\n".join(_of_the_runtime(messages)),
        tools=tuple(tool.function for tool in request.tools or ()),
    )


def _first_after_head(messages: Sequence[ChatMessage]) -> int:
    """Return the index after the instructions and the record of earlier events."""
    heads = (i for i, m in enumerate(messages) if m.role not in SYSTEM and not _is_record(m))
    return next(heads, len(messages))


def _newest_start(messages: Sequence[ChatMessage]) -> int:
    users = (i for i, m in enumerate(messages) if m.role == "user" and not _is_handed(m))
    return max(users, default=len(messages))


def _of_the_runtime(messages: Sequence[ChatMessage]) -> Iterator[str]:
    for message in messages:
        if message.role in SYSTEM or _is_record(message):
            yield message.text
        elif message.role == "user":
            yield from REMARKS_OF_MEMORY.split(message.text, 1)[1:]


def _is_asked(message: ChatMessage) -> bool:
    return message.role == "user" and not _is_report(message.text) and not _is_record(message)


def _is_record(message: ChatMessage) -> bool:
    return message.role == "user" and message.text.startswith(
        (SUMMARY_HEADING, SKILL_INPUT_HEADING)
    )


def _is_handed(message: ChatMessage) -> bool:
    return message.role == "user" and message.text.startswith(
        (SKILL_INPUT_HEADING, TOOL_PICTURES_HEADING)
    )


def _is_report(text: str) -> bool:
    return text.startswith(REPORT_HEADING)


def _quoted_in(text: str) -> str:
    """Return the quoted lines, without the quotation marks."""
    lines = (line for line in text.splitlines() if line.startswith(">"))
    return "\n".join(line[1:].removeprefix(" ") for line in lines)


def _results(since: Sequence[ChatMessage]) -> tuple[ToolResult, ...]:
    names = {call.id: call.function.name for m in since for call in m.tool_calls or ()}
    return tuple(
        ToolResult(names.get(message.tool_call_id or "", "a tool"), message.text)
        for message in since
        if message.role == "tool"
    )
