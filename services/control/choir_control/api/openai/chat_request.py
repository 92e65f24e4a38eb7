"""Requests to `/chat/completions`: which of it reaches the agent, and what is refused. Pure.

Only the last message of the user is used: the agent has the conversation in its own log. Parameters of
sampling are ignored, and so are tools of clients without the scope `tools` (decision 103). What would change
the meaning of the answer is refused.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.wire.attachments import MAX_FILE_NAME, MAX_FILES
from choir_common.wire.client_tools import MAX_RESULT, MAX_TOOLS, ClientTool
from choir_common.wire.messages import MAX_TEXT
from choir_common.wire.validation_messages import error_messages

SHOWN = 3
FREE_MODES = (None, "auto", "none")
"""Values of `tool_choice` that leave the choice to the agent."""
NO_CLIENT_TOOLS = (
    "an agent uses its own tools and cannot be made to call yours. Leave it out, or offer your tools to "
    "the agent as an MCP server."
)
USER_ROLES = frozenset({"user"})
INSTRUCTION_ROLES = frozenset({"system", "developer"})
TOOL_ROLES = frozenset({"tool", "function"})
AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_DATA_URL = re.compile(
    r"data:(?P<mime>[a-z]+/[a-z0-9.+-]{1,100})(?:;[a-z]+=[^;,]{1,40})*;base64,", re.IGNORECASE
)


class _Part(BaseModel):
    """A part of a request; unknown fields are ignored, because clients send many."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _TextPart(_Part):
    type: Literal["text"]
    text: str


class _ImageUrl(_Part):
    url: str


class _ImagePart(_Part):
    type: Literal["image_url"]
    image_url: _ImageUrl


class _InputAudio(_Part):
    data: str
    format: Literal["wav", "mp3"]


class _AudioPart(_Part):
    type: Literal["input_audio"]
    input_audio: _InputAudio


class _FileContent(_Part):
    file_data: str
    filename: str = Field(default="file", min_length=1, max_length=MAX_FILE_NAME)


class _FilePart(_Part):
    type: Literal["file"]
    file: _FileContent


ContentPart = Annotated[
    _TextPart | _ImagePart | _AudioPart | _FilePart, Field(discriminator="type")
]
_PARTS: TypeAdapter[tuple[ContentPart, ...]] = TypeAdapter(tuple[ContentPart, ...])


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of the user's message."""

    name: str
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What reaches the agent."""

    text: str
    files: tuple[SentFile, ...] = ()


class _StreamOptions(_Part):
    include_usage: bool = False


class _Function(_Part):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _FunctionTool(_Part):
    type: Literal["function"]
    function: _Function


_TOOLS: TypeAdapter[tuple[_FunctionTool, ...]] = TypeAdapter(tuple[_FunctionTool, ...])


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool that the client has run."""

    call: str
    """The id of the call, as the client got it."""
    text: str


class ChatRequest(_Part):
    """The body of a request."""

    model: str
    messages: tuple[dict[str, Any], ...] = Field(min_length=1)
    stream: bool = False
    stream_options: _StreamOptions | None = None
    n: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    function_call: str | dict[str, Any] | None = None
    tools: tuple[object, ...] | None = None
    functions: tuple[object, ...] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    modalities: tuple[str, ...] | None = None

    @property
    def previous_message(self) -> None:
        """Return None: this API does not name earlier answers."""
        return

    def read_message(self) -> UserMessage:
        """Return what reaches the agent; raises InvalidRequest."""
        return read_user_message(self.messages, "messages")

    def read_tools(self) -> tuple[ClientTool, ...]:
        """Return the tools that the client offers; raises InvalidRequest."""
        if self.tool_choice == "none" or not self.tools:
            return ()
        if len(self.tools) > MAX_TOOLS:
            raise InvalidRequest(f"tools: at most {MAX_TOOLS}.")
        try:
            offered = [it.function for it in _TOOLS.validate_python(self.tools)]
            return tuple(
                ClientTool(
                    name=it.name,
                    description=it.description or "",
                    parameters=it.parameters or {},
                )
                for it in offered
            )
        except ValidationError as error:
            faults = "; ".join(error_messages(error, "tools")[:SHOWN])
            raise InvalidRequest(f"tools: {faults}.") from None

    def read_tool_results(self) -> tuple[ToolResult, ...]:
        """Return the results of tools with which the request ends; raises InvalidRequest."""
        results = [*takewhile(lambda it: it.get("role") == "tool", reversed(self.messages))]
        return tuple(_tool_result(message) for message in reversed(results))

    @property
    def instructions(self) -> str:
        """Return the text of the first message if it is one of the system; agents do not get it."""
        first = self.messages[0]
        content = first.get("content")
        is_system = first.get("role") in INSTRUCTION_ROLES
        return content if is_system and isinstance(content, str) else ""

    @property
    def has_tools(self) -> bool:
        """Return whether the client offers tools of its own."""
        return bool(self.tools or self.functions)

    @property
    def includes_usage(self) -> bool:
        """Return whether the stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage


def parse_chat_request(body: bytes) -> ChatRequest:
    """Return the request; raises InvalidRequest for a wrong shape, and for what agents cannot do."""
    try:
        request = ChatRequest.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, "body")[:SHOWN])) from None
    _refuse_unsupported(request)
    return request


def read_user_message(messages: Sequence[Mapping[str, Any]], field: str) -> UserMessage:
    """Return the last message of the user.

    Raises InvalidRequest, with the name of the request's field, if the request does not end with one.
    """
    dialogue = [it for it in messages if it.get("role") not in INSTRUCTION_ROLES]
    if dialogue and dialogue[-1].get("role") in TOOL_ROLES:
        raise InvalidRequest(
            f"{field}: an agent calls no tools of yours, so it takes no results of them; for a client with "
            "the scope `tools` it does, in /chat/completions."
        )
    if not dialogue or dialogue[-1].get("role") not in USER_ROLES:
        raise InvalidRequest(
            f"{field}: the last message must be of the role user: only that one reaches the agent."
        )
    content = dialogue[-1].get("content")
    message = (
        UserMessage(content)
        if isinstance(content, str)
        else _join(_read_parts(content, field), field)
    )
    if not message.text.strip() and not message.files:
        raise InvalidRequest(f"{field}: the last message is empty.")
    if len(message.text) > MAX_TEXT:
        raise InvalidRequest(f"{field}: the last message has more than {MAX_TEXT:,} characters.")
    return message


def _tool_result(message: Mapping[str, Any]) -> ToolResult:
    content, call = message.get("content"), message.get("tool_call_id")
    if isinstance(content, list):
        parts = [it.get("text") for it in content if isinstance(it, dict)]
        content = "\n".join(it for it in parts if isinstance(it, str))
    if not isinstance(call, str) or not isinstance(content, str):
        raise InvalidRequest("messages: a message of the role tool has tool_call_id and content.")
    if len(content) > MAX_RESULT:
        raise InvalidRequest(f"messages: a result of a tool has at most {MAX_RESULT:,} characters.")
    return ToolResult(call, content)


def forces_call(choice: str | dict[str, Any] | None) -> bool:
    """Return whether a `tool_choice` wants a call; `allowed_tools` has a mode of its own."""
    match choice:
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode}}:
            return mode not in FREE_MODES
        case {"type": "allowed_tools", "mode": mode}:  # in /responses
            return mode not in FREE_MODES
        case {"type": "auto" | "none"}:
            return False
        case _:
            return choice not in FREE_MODES


def _refuse_unsupported(request: ChatRequest) -> None:
    """Raise InvalidRequest for parameters that would promise something about the answer."""
    forced = {
        "tool_choice": forces_call(request.tool_choice),
        "function_call": forces_call(request.function_call),
    }
    for name, is_forced in forced.items():
        if is_forced:
            raise InvalidRequest(f"{name}: {NO_CLIENT_TOOLS}")
    if request.n not in (None, 1):
        raise InvalidRequest("n: an agent gives one answer.")
    if (request.response_format or {}).get("type", "text") != "text":
        raise InvalidRequest(
            "response_format: agents answer with text; ask for JSON in the message."
        )
    if request.logprobs:
        raise InvalidRequest("logprobs: agents have none.")
    if request.modalities is not None and set(request.modalities) != {"text"}:
        raise InvalidRequest("modalities: agents answer with text.")


def _read_parts(content: object, field: str) -> tuple[ContentPart, ...]:
    try:
        return _PARTS.validate_python(content)
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "content")[:SHOWN])
        raise InvalidRequest(f"{field}[-1].content: {faults}.") from None


def _join(parts: tuple[ContentPart, ...], field: str) -> UserMessage:
    texts: list[str] = []
    files: list[SentFile] = []
    for number, part in enumerate(parts):
        place = f"{field}[-1].content[{number}]"
        match part:
            case _TextPart():
                texts.append(part.text)
            case _ImagePart():
                mime, content = _read_data_url(part.image_url.url, f"{place}.image_url.url")
                files.append(SentFile(f"image-{number}.{_suffix(mime)}", mime, content))
            case _AudioPart():
                audio = part.input_audio
                content = _decode(audio.data, f"{place}.input_audio.data")
                name = f"audio-{number}.{audio.format}"
                files.append(SentFile(name, AUDIO_TYPES[audio.format], content))
            case _FilePart():
                mime, content = _read_data_url(part.file.file_data, f"{place}.file.file_data")
                files.append(SentFile(part.file.filename, mime, content))
    if len(files) > MAX_FILES:
        raise InvalidRequest(f"{field}: the last message has more than {MAX_FILES} files.")
    return UserMessage("\n".join(texts), tuple(files))


def _read_data_url(url: str, place: str) -> tuple[str, bytes]:
    """Return the type and the bytes of a data URL. Choir fetches nothing from other addresses."""
    head = _DATA_URL.match(url)
    if head is None:
        raise InvalidRequest(
            f"{place}: send the file as a data URL (data:image/png;base64,...); Choir downloads none."
        )
    return head["mime"].lower(), _decode(url[head.end() :], place)


def _decode(text: str, place: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{place}: this is not base64.") from None


def _suffix(mime: str) -> str:
    return {"image/jpeg": "jpg", "image/svg+xml": "svg"}.get(mime, mime.partition("/")[2])
