"""Responses of `/responses`, as objects and as events of a stream. Pure."""

import json
from typing import Any

from choir_common.errors import ChoirError, RateLimited
from choir_control.api.openai.response_request import RESPONSE_PREFIX
from choir_control.conversations.inbox.answer_store import TokenUsage

IN_PROGRESS, COMPLETED, FAILED = "in_progress", "completed", "failed"


class ResponseWriter:
    """Writes the responses to one request; the message id is what `previous_response_id` names later."""

    def __init__(
        self, message_id: str, created: int, model: str, *, previous: str | None = None
    ) -> None:
        self._id = message_id
        self._created = created
        self._model = model
        self._previous = previous
        self._number = 0
        self._text = ""

    def complete(self, text: str, usage: TokenUsage | None) -> dict[str, Any]:
        """Return a complete answer."""
        return self._response(COMPLETED, [self._item(COMPLETED, text)], usage)

    def begin(self) -> bytes:
        """Return the events that begin a stream."""
        place = {"output_index": 0}
        part = {"item_id": self._item_id, "content_index": 0, "part": _part("")}
        return b"".join(
            (
                self._event("response.created", response=self._response(IN_PROGRESS)),
                self._event("response.in_progress", response=self._response(IN_PROGRESS)),
                self._event("response.output_item.added", **place, item=self._item(IN_PROGRESS)),
                self._event("response.content_part.added", **place, **part),
            )
        )

    def piece(self, text: str) -> bytes:
        """Return the event that appends a text."""
        self._text += text
        return self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, usage: TokenUsage | None) -> bytes:
        """Return the events that end the answer."""
        text, item = self._text, self._item(COMPLETED, self._text)
        return b"".join(
            (
                self._event("response.output_text.done", **self._place, text=text, logprobs=[]),
                self._event("response.content_part.done", **self._place, part=_part(text)),
                self._event("response.output_item.done", output_index=0, item=item),
                self._event(
                    "response.completed", response=self._response(COMPLETED, [item], usage)
                ),
            )
        )

    def fail(self, error: ChoirError) -> bytes:
        """Return the event of an error after a stream has begun."""
        code = "rate_limit_exceeded" if isinstance(error, RateLimited) else "server_error"
        response = self._response(FAILED) | {"error": {"code": code, "message": error.message}}
        return self._event("response.failed", response=response)

    @property
    def _item_id(self) -> str:
        return f"msg_{self._id}"

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _item(self, status: str, text: str | None = None) -> dict[str, Any]:
        content = [] if text is None else [_part(text)]
        return {
            "id": self._item_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _response(
        self,
        status: str,
        output: list[dict[str, Any]] | None = None,
        usage: TokenUsage | None = None,
    ) -> dict[str, Any]:
        return {
            "id": f"{RESPONSE_PREFIX}{self._id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self._model,
            "output": output or [],
            "parallel_tool_calls": False,
            "previous_response_id": self._previous,
            "store": True,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "usage": _usage(usage),
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps(data).encode())


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: TokenUsage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }
