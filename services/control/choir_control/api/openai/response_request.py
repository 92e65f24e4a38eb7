"""Requests to `/responses`: which of it reaches the agent, and what is refused. Pure.

The same rules as for `/chat/completions`: the last message of the user is used; sampling and tools are
ignored.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.wire.validation_messages import error_messages
from choir_control.api.openai.chat_request import (
    NO_CLIENT_TOOLS,
    SHOWN,
    UserMessage,
    forces_call,
    read_user_message,
)

RESPONSE_PREFIX = "resp_"
MAX_RESPONSE_ID = 100


class _TextFormat(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: str = "text"


class _TextOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    format: _TextFormat = _TextFormat()


class ResponseRequest(BaseModel):
    """The body of a request; unknown fields are ignored, because clients send many."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    input: str | tuple[dict[str, Any], ...]
    stream: bool = False
    previous_response_id: str | None = Field(default=None, max_length=MAX_RESPONSE_ID)
    conversation: str | dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None
    background: bool | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: tuple[object, ...] | None = None
    text: _TextOptions | None = None

    @property
    def previous_message(self) -> str | None:
        """Return the id of the message that `previous_response_id` answered."""
        return (self.previous_response_id or "").removeprefix(RESPONSE_PREFIX) or None

    @property
    def instructions(self) -> str:
        """Return nothing: the programs that need it do not use this API."""
        return ""

    @property
    def has_tools(self) -> bool:
        """Return whether the client offers tools of its own."""
        return bool(self.tools)

    @property
    def includes_usage(self) -> bool:
        """Return whether the stream ends with the usage: always."""
        return True

    def read_message(self) -> UserMessage:
        """Return what reaches the agent; raises InvalidRequest."""
        if isinstance(self.input, str):
            return read_user_message(({"role": "user", "content": self.input},), "input")
        if self.input and self.input[-1].get("type") == "function_call_output":
            raise InvalidRequest(
                "input: an agent calls no tools of yours, so it takes no results of them."
            )
        messages = [it for it in self.input if it.get("type", "message") == "message"]
        return read_user_message([_as_chat_message(it) for it in messages], "input")


def parse_response_request(body: bytes) -> ResponseRequest:
    """Return the request; raises InvalidRequest for a wrong shape, and for what agents cannot do."""
    try:
        request = ResponseRequest.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, "body")[:SHOWN])) from None
    _refuse_unsupported(request)
    return request


def _refuse_unsupported(request: ResponseRequest) -> None:
    if forces_call(request.tool_choice):
        raise InvalidRequest(f"tool_choice: {NO_CLIENT_TOOLS}")
    if request.text is not None and request.text.format.type != "text":
        raise InvalidRequest("text.format: agents answer with text; ask for JSON in the message.")
    if request.background:
        raise InvalidRequest("background: wait for the answer, or read it in the conversation.")
    if request.conversation is not None:
        raise InvalidRequest(
            "conversation: name a conversation of Choir in the header X-Choir-Conversation."
        )
    if request.prompt is not None:
        raise InvalidRequest("prompt: there are no stored prompts; send the text in `input`.")


def _as_chat_message(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the shape of `/chat/completions`, which names the same parts otherwise."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    return {**item, "content": [_as_chat_part(it) for it in content]}


def _as_chat_part(part: object) -> object:
    match part:
        case {"type": "input_text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "input_file", "file_data": str(data), **fields}:
            return {"type": "file", "file": {**fields, "file_data": data}}
        case {"type": "input_image" | "input_file"}:
            raise InvalidRequest(
                "input[-1].content: send files in the request (`file_data`, `image_url`) as data URLs; "
                "there are no uploaded files, and Choir downloads none."
            )
        case _:
            return part
