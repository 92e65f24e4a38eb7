"""Parsing of messages that the API returns, whole or as a stream of events. Pure."""

from datetime import UTC, datetime

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.anthropic.conversation import NATIVE, THINKING
from choir_models.body_parser import parse_body
from choir_models.model import Completion, ContextOverflow, ModelFailed, ProposedCall
from choir_models.output_limits import MAX_ARGUMENTS, MAX_CALLS, text_with_notes, token_count
from choir_models.provider_errors import error_from_body, shorten
from choir_models.provider_fields import native_fields

PAUSED = "pause_turn"
_FINISH = {"tool_use": "tool_calls", "max_tokens": "length", "end_turn": "stop"}


class ReceivedMessage(BaseModel):
    """A message of the API, with the fields that Choir uses."""

    model_config = ConfigDict(extra="ignore")
    content: list[JsonObject] = Field(default_factory=list)
    model: JsonValue = None
    stop_reason: JsonValue = None
    stop_details: JsonValue = None
    usage: JsonObject = Field(default_factory=dict)


class _MessageBody(ReceivedMessage):
    content: list[JsonObject]
    error: JsonValue = None


def read_message_body(body: bytes) -> ReceivedMessage:
    """Parse a whole response.

    Raises ModelFailed if it is no message; an error with status 200 is classified and raised.
    """
    try:
        error = orjson.loads(body).get("error")
    except (orjson.JSONDecodeError, AttributeError):
        error = None
    if error:
        raise error_from_body(error, datetime.now(UTC))
    return parse_body(_MessageBody, body, "the provider's answer is not a message")


def join_messages(first: ReceivedMessage, then: ReceivedMessage) -> ReceivedMessage:
    """Return a paused message and its continuation as one, with the tokens of both."""
    counts = _sum_counts(first.usage, then.usage)
    return then.model_copy(update={"content": [*first.content, *then.content], "usage": counts})


def _sum_counts(first: JsonObject, then: JsonObject) -> JsonObject:
    """Return the sums of the numbers in two usages, also of the nested ones."""
    counts = {**first, **then}
    for name, value in first.items():
        match (value, then.get(name)):
            case (dict(part), dict(more)):
                counts[name] = _sum_counts(part, more)
            case (int(part), int(more)):
                counts[name] = part + more
    return counts


def read_response(message: ReceivedMessage, asked_model: str, duration_ms: float) -> Completion:
    """Return the completion; raises ModelFailed for a refusal and ContextOverflow for a full context."""
    finish = str(message.stop_reason or "end_turn")
    uses = [block for block in message.content if block.get("type") == "tool_use"]
    usage = message.usage
    cached = token_count(usage.get("cache_read_input_tokens"))
    writes = token_count(usage.get("cache_creation_input_tokens"))
    lifetimes = _details(usage, "cache_creation")
    reasoning = _details(usage, "output_tokens_details").get("thinking_tokens")
    completion = Completion(
        text=text_with_notes(
            message_text(message.content), calls=len(uses), is_cut=finish == "max_tokens"
        ),
        calls=tuple(map(_proposed, uses[:MAX_CALLS])),
        model=message.model if isinstance(message.model, str) else asked_model,
        finish_reason=_FINISH.get(finish, finish),
        # The API counts cached tokens apart from the others.
        prompt_tokens=token_count(usage.get("input_tokens")) + cached + writes,
        completion_tokens=token_count(usage.get("output_tokens")),
        duration_ms=round(duration_ms, 3),
        cached_tokens=cached,
        cache_write_tokens=writes,
        cache_write_1h_tokens=token_count(lifetimes.get("ephemeral_1h_input_tokens")),
        reasoning_tokens=token_count(reasoning),
        fields=_native_fields(message.content),
    )
    _raise_for_stop(message, completion)
    return completion


def _details(usage: JsonObject, name: str) -> JsonObject:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def message_text(content: list[JsonObject]) -> str:
    """Return the text of a message; text after another block is a new paragraph."""
    text, previous = "", None
    for block in content:
        if block.get("type") == "text":
            text += separator(text, previous) + str(block.get("text", ""))
        previous = block.get("type")
    return text


def separator(text: str, previous: JsonValue) -> str:
    """Return what separates the text so far from a text block behind a block of another type."""
    return "\n\n" if text and previous != "text" else ""


def _raise_for_stop(message: ReceivedMessage, spent: Completion) -> None:
    """Raise the failure of a message that is no answer; the provider bills it."""
    match message.stop_reason:
        case "refusal":
            details = message.stop_details
            why = details.get("explanation") if isinstance(details, dict) else None
            text = _("the model refused to answer") + (f": {why}" if why else "")
            raise ModelFailed(shorten(text), cause="filter", spent=spent)
        case "model_context_window_exceeded":
            text = _("the answer exceeds the model's context window")
            raise ContextOverflow(text, cause="too_long", spent=spent)
        case "pause_turn":
            text = _("the provider paused the answer again and again")
            raise ModelFailed(text, cause="format", spent=spent)


def _proposed(use: JsonObject) -> ProposedCall:
    value = use.get("input")
    # A streamed input is text if it is not an object, for example because it was cut.
    arguments = value if isinstance(value, str) else orjson.dumps(value or {}).decode()
    fields: JsonObject = {"id": use["id"]} if isinstance(use.get("id"), str) else {}
    return ProposedCall(str(use.get("name") or "")[:200], arguments[:MAX_ARGUMENTS], fields)


def _native_fields(content: list[JsonObject]) -> JsonObject:
    """Return the blocks that must come back unchanged, if there are other ones than text and calls.

    The inputs of calls are left out: they are in the calls, and are inserted again. Thoughts at the end were
    cut off, and are not accepted again.
    """
    plain = all(block.get("type") in ("text", "tool_use") for block in content)
    if plain or content[-1].get("type") in THINKING:
        return {}
    blocks: list[JsonObject] = [
        {name: value for name, value in block.items() if name not in ("input", "name")}
        if block.get("type") == "tool_use"
        else block
        for block in content
    ]
    return native_fields(NATIVE, blocks)
