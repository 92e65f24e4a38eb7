"""Parsing of Responses responses, and assembly of streamed ones. Pure.

The output's items are stored as they came if there is a thought among them; incomplete items are never sent
back.
"""

from datetime import UTC, datetime

import orjson
from pydantic import JsonValue

from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.billing import billed_usd
from choir_models.model import Completion, ModelFailed, ProposedCall
from choir_models.openai_responses.request_codec import API
from choir_models.output_limits import MAX_ARGUMENTS, MAX_CALLS, text_with_notes, token_count
from choir_models.provider_errors import error_from_body
from choir_models.provider_fields import native_fields

_FINAL_EVENTS = {"response.completed", "response.incomplete", "response.failed"}
_TEXT_DELTAS = {"response.output_text.delta", "response.refusal.delta"}
_NEW_ITEM = "response.output_item.added"
_STATUSES = {"rate_limit_exceeded": 429, "server_error": 500}
"""HTTP statuses of the errors in failed responses."""


class StreamedResponse:
    """The events of a stream that have arrived."""

    def __init__(self) -> None:
        self._response: JsonObject = {}
        self._items: list[JsonValue] = []
        self.is_complete = False
        """Whether the last event has arrived; otherwise the connection was cut."""
        self.hidden_characters = 0
        """The length of the output that is no text: thoughts, calls."""

    def add(self, data: str) -> str:
        """Add an event's data and return its text for the user; raises ValueError if it is malformed."""
        if data.strip() == "[DONE]":
            return ""
        event = orjson.loads(data)
        if not isinstance(event, dict):
            raise ValueError("an event of the stream is not an object")
        kind = event.get("type")
        if kind in _TEXT_DELTAS:
            return str(event.get("delta") or "")
        if kind == _NEW_ITEM:
            # Thoughts may be encrypted: their item is all that is seen of them.
            self.hidden_characters += 1
        elif str(kind).endswith(".delta"):
            self.hidden_characters += len(str(event.get("delta") or ""))
        if kind == "response.output_item.done":
            self._items.append(event.get("item"))
        elif kind in _FINAL_EVENTS:
            self._response = _object(event, "response")
            self.is_complete = True
        elif kind == "error":
            # Documented as fields of the event; some servers nest them.
            self._response = {"status": "failed", "error": event.get("error") or event}
            self.is_complete = True
        return ""

    def body(self) -> bytes:
        """Return the body of the whole response; some servers leave its output empty."""
        return orjson.dumps(
            {**self._response, "output": self._response.get("output") or self._items}
        )


def read_response(body: bytes, asked_model: str, duration_ms: float) -> Completion:
    """Parse the response body; raises ModelFailed if it failed, was filtered or is malformed."""
    response = _parse(body)
    output = response.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    is_cut = response.get("status") == "incomplete"
    calls = [item for item in items if item.get("type") == "function_call"]
    usage = _object(response, "usage")
    details = _object(usage, "input_tokens_details")
    model = response.get("model")
    completion = Completion(
        text=text_with_notes(_text(items), calls=len(calls), is_cut=is_cut),
        calls=tuple(map(_proposed, calls[:MAX_CALLS])),
        model=model if isinstance(model, str) else asked_model,
        finish_reason="length" if is_cut else "tool_calls" if calls else "stop",
        prompt_tokens=token_count(usage.get("input_tokens")),
        completion_tokens=token_count(usage.get("output_tokens")),
        duration_ms=round(duration_ms, 3),
        cached_tokens=token_count(details.get("cached_tokens")),
        cache_write_tokens=token_count(details.get("cache_write_tokens")),
        reasoning_tokens=token_count(
            _object(usage, "output_tokens_details").get("reasoning_tokens")
        ),
        billed_usd=billed_usd(usage),
        fields={} if is_cut else _fields(items),
    )
    if _object(response, "incomplete_details").get("reason") == "content_filter":
        message = _("the provider's content filter blocked the answer")
        raise ModelFailed(message, cause="filter", spent=completion)
    return completion


def _parse(body: bytes) -> JsonObject:
    try:
        response = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ModelFailed(_("the provider's answer is not JSON"), cause="format") from error
    if not isinstance(response, dict):
        raise ModelFailed(_("the provider's answer is not a response"), cause="format")
    fault = _object(response, "error")
    if fault or response.get("status") == "failed":
        status = _STATUSES.get(str(fault.get("code")), fault.get("code"))
        text = " ".join(str(fault[name]) for name in ("code", "message") if fault.get(name))
        raise error_from_body({"code": status, "message": text}, datetime.now(UTC))
    if "output" not in response:
        raise ModelFailed(
            _("the provider's answer is not a response: it has no output"), cause="format"
        )
    return response


def _text(items: list[JsonObject]) -> str:
    """Return the text of all messages, and of refusals."""
    texts: list[str] = []
    for item in items:
        content = item.get("content")
        if item.get("type") == "message" and isinstance(content, list):
            parts = [part for part in content if isinstance(part, dict)]
            texts.append(
                "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
            )
    return "\n\n".join(filter(None, texts))


def _proposed(item: JsonObject) -> ProposedCall:
    name, arguments = item.get("name"), item.get("arguments")
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
    return ProposedCall(str(name or "")[:200], (text or "{}")[:MAX_ARGUMENTS])


def _fields(items: list[JsonObject]) -> JsonObject:
    kinds = [item.get("type") for item in items]
    if not items or set(kinds) <= {"message", "function_call"}:
        return {}
    # A thought that nothing follows, or that is not in the response, is refused when it comes back.
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    if kinds[-1] == "reasoning" or not all(item.get("encrypted_content") for item in thoughts):
        return {}
    return native_fields(API, items)


def _object(value: JsonObject, name: str) -> JsonObject:
    inner: JsonValue = value.get(name)
    return inner if isinstance(inner, dict) else {}
