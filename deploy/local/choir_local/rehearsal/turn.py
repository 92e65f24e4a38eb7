"""What the messages of a chat request say about where its conversation stands.

Called by `app` with the raw body; read by `choose`, `directives` and `template`. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue

from choir_common.wire.json import JsonObject
from choir_local.rehearsal.lane import Lane, lane_of

SYSTEM = ("system", "developer")


class _Lenient(BaseModel):
    # What a client sends beyond this is of no interest here, and new fields come every year.
    model_config = ConfigDict(frozen=True, extra="ignore")


class TextPart(_Lenient):
    """A part of a message's content; only text is read."""

    text: str = ""


class CalledFunction(_Lenient):
    """The function of a tool call."""

    name: str
    arguments: str = ""


class CalledTool(_Lenient):
    """A tool call in an assistant message."""

    id: str
    function: CalledFunction


class ChatMessage(_Lenient):
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


class OfferedFunction(_Lenient):
    """The function of an offered tool."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None


class OfferedTool(_Lenient):
    """A tool that the model may call."""

    function: OfferedFunction


class StreamOptions(_Lenient):
    """Wishes about a stream."""

    include_usage: bool = False


class ChatRequest(_Lenient):
    """The body of `POST /v1/chat/completions`."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[OfferedTool, ...] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    response_format: JsonValue = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered in this turn; `name` is as it went over the wire."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a conversation stands.

    A turn begins with the last user message, or with a system message after it that follows a finished
    answer: the agent then has something to report. A core job, and what is no conversation, is one turn
    from its first message to its last.
    """

    lane: Lane | None
    user_text: str
    """What this turn is about; in a core job its briefing, and all that was injected."""
    note: bool
    """Whether a system message began this turn, and nobody asked."""
    users: int
    """User messages so far, this one included."""
    answers: int
    """Assistant messages since the turn began: the steps already played."""
    results: tuple[ToolResult, ...]
    last_role: str
    system_text: str
    tools: tuple[OfferedFunction, ...]

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Return the names of the offered tools, as on the wire."""
        return tuple(tool.name for tool in self.tools)


def read_turn(request: ChatRequest) -> Turn:
    """Say where the conversation of `request` stands."""
    messages = request.messages
    lane = lane_of(messages[0].text) if messages else None
    whole = lane in ("core", "compaction", "summary")
    start = _first_after_head(messages) if whole else _newest_start(messages)
    since = messages[start:]
    told = [m.text for m in since if m.role == "user" or (whole and m.role in SYSTEM)]
    note = not whole and bool(since) and since[0].role in SYSTEM
    return Turn(
        lane=lane,
        user_text=since[0].text if note else "\n".join(told) if whole else "".join(told[:1]),
        note=note,
        users=1 if whole else sum(message.role == "user" for message in messages),
        answers=sum(message.role == "assistant" for message in since),
        results=_results(since),
        last_role=messages[-1].role if messages else "user",
        system_text="\n".join(m.text for m in messages if m.role in SYSTEM),
        tools=tuple(tool.function for tool in request.tools or ()),
    )


def _first_after_head(messages: Sequence[ChatMessage]) -> int:
    """Return where the instructions end."""
    return next((i for i, m in enumerate(messages) if m.role not in SYSTEM), len(messages))


def _newest_start(messages: Sequence[ChatMessage]) -> int:
    start, finished = len(messages), False
    for number, message in enumerate(messages):
        if message.role == "user" or (message.role in SYSTEM and finished):
            start = number
        if message.role not in SYSTEM:
            finished = message.role == "assistant" and not message.tool_calls
    return start


def _results(since: Sequence[ChatMessage]) -> tuple[ToolResult, ...]:
    names = {call.id: call.function.name for m in since for call in m.tool_calls or ()}
    return tuple(
        ToolResult(names.get(message.tool_call_id or "", "a tool"), message.text)
        for message in since
        if message.role == "tool"
    )
