"""Fake of Anthropic's Messages API, version 2026-10-21.

Beyond the rules of a single request it remembers its thoughts: a signature must come back with the text that
it was made for, and in newer models behind the history that it was made behind.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.providers.anthropic_rules import (
    THINKING,
    USER_BLOCKS,
    BrokenRule,
    blocks_of,
    check_request,
    objects,
    system_blocks,
)
from choir_testing.providers.anthropic_stream import stream_events
from choir_testing.providers.provider import (
    Answer,
    ErrorFault,
    ErrorResponse,
    FakeProvider,
    RecordedRequest,
)

VERSION = "2026-10-21"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
LOOKBACK = 20
"""Number of blocks before a mark among which a cache entry is found."""
_ERRORS = {
    "invalid": (400, "invalid_request_error", "The request is invalid."),
    "key": (401, "authentication_error", "invalid x-api-key"),
    "credit": (400, "invalid_request_error",
               "Your credit balance is too low to access the Anthropic API."),
    "not_found": (404, "not_found_error", "model: unknown"),
    "rate": (429, "rate_limit_error", "This request would exceed your rate limit."),
    "server": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "overflow": (400, "invalid_request_error",
                 "prompt is too long: 210000 tokens > 200000 maximum"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """What a request found in the cache of prompts, in blocks of the prompt."""

    read: int
    blocks: int


class AnthropicProvider(FakeProvider):
    """The Messages API with a model that thinks when an answer has reasoning."""

    api = "anthropic"
    name = "anthropic"
    paths = ("/v1/messages",)
    limit_paths = (("max_tokens",),)
    limit_error = (
        "max_tokens: {limit} > {longest}, which is the maximum allowed number of output tokens for this "
        "model"
    )

    binds_thinking = False
    """Whether a thought is refused after a change of what precedes it (Claude 5.5)."""
    forgets_earlier_turns = False
    """Whether thoughts before a user message with more than tool results are ignored (Claude 4.5 and
    earlier)."""
    redacts_thinking = False
    """Whether thoughts are sent encrypted."""
    stop_reason = ""
    """The reason that replaces the usual one in the next answer; `pause_turn` also ends it in a call of a
    tool of the provider."""
    stream_error: ErrorFault | None = None
    """An error event after the first half of the next stream."""

    def __init__(self, **kwargs: str) -> None:
        super().__init__(**kwargs)
        self.cache_uses: list[CacheUsage] = []
        self.seen_thoughts: list[int] = []
        """How many of the thoughts in each valid request the model reads."""
        self._cached: set[str] = set()
        # Signature or data of a thought: its text, and the digest of what preceded it.
        self._thoughts: dict[str, tuple[str, str]] = {}
        self._number = 0

    def key_of(self, request: RecordedRequest) -> str | None:
        """Return the key; both headers are accepted."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return request.headers.get("x-api-key") or bearer or None

    def broken_rule(self, request: RecordedRequest) -> str | None:
        """Return the error text for a request that breaks a rule, or None."""
        if request.headers.get("anthropic-version") != VERSION:
            return "anthropic-version: header is required"
        try:
            body = self._without_binding(request)
            check_request(body)
            self._check_thoughts(request.body)
        except BrokenRule as broken:
            return str(broken)
        self.cache_uses.append(self._use_cache(body))
        self.seen_thoughts.append(self._count_seen(request.body))
        return None

    def wants_stream(self, request: RecordedRequest) -> bool:
        """Return whether the request asks for a stream."""
        return request.body.get("stream") is True

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        """Return a message."""
        self._number += 1
        usage = answer.usage
        counted: JsonObject = {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
            "cache_creation": {
                "ephemeral_5m_input_tokens": usage.cache_write_tokens - usage.cache_write_1h_tokens,
                "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
            },
            "service_tier": "standard",
        }
        usual = "tool_use" if answer.calls else "end_turn"
        reason = (
            self.stop_reason
            or ("refusal" if answer.is_filtered else "")
            or ("max_tokens" if answer.is_cut else usual)
        )
        self.stop_reason = ""
        content: list[JsonValue] = [*self._content(answer, request)]
        if reason == "pause_turn":
            tool: JsonObject = {"type": "server_tool_use", "id": f"srvtoolu_{self._number}"}
            content.append({**tool, "name": "web_search", "input": {"query": "tea"}})
        return {
            "id": f"msg_{self._number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": counted,
        }

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        """Return the events of a stream."""
        message = self.render(answer, request)
        events = [*stream_events(message)]
        if self.stream_error is not None:
            error = self.render_error(self.stream_error, request).body
            self.stream_error = None
            events = [*events[: len(events) // 2], error]  # type: ignore[list-item]
        return [
            b"event: %s\ndata: %s\n\n" % (str(e["type"]).encode(), orjson.dumps(e)) for e in events
        ]

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        """Return an error; the content filter is a refusal in a usual message."""
        if fault.kind == "filter":
            self.stop_reason = "refusal"
            return ErrorResponse(200, self.render(Answer(), request))
        status, kind, text = _ERRORS[fault.kind]
        headers = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
        error: JsonObject = {"type": kind, "message": fault.message or text}
        body: JsonObject = {"type": "error", "error": error, "request_id": f"req_{self._number}"}
        return ErrorResponse(status, body, headers)

    def forget_thoughts(self) -> None:
        """Refuse all earlier thoughts, as if another account had made them."""
        self._thoughts.clear()

    def images_of(self, request: RecordedRequest) -> Sequence[str]:
        """Return the images in a request, also those in results."""
        images: list[str] = []
        for message in objects(request.body.get("messages")):
            for block in blocks_of(message):
                inner = blocks_of(block) if block["type"] == "tool_result" else [block]
                sources = [part.get("source") for part in inner if part["type"] == "image"]
                images += [str(source["data"]) for source in sources if isinstance(source, dict)]
        return images

    def _content(self, answer: Answer, request: RecordedRequest) -> Iterator[JsonObject]:
        if answer.reasoning:
            opaque = f"sig-{self._number}-" + hashlib.sha256(answer.reasoning.encode()).hexdigest()
            self._thoughts[opaque] = (answer.reasoning, _digest(request.body))
            if self.redacts_thinking:
                yield {"type": "redacted_thinking", "data": opaque}
            else:
                yield {"type": "thinking", "thinking": answer.reasoning, "signature": opaque}
        if answer.text:
            yield {"type": "text", "text": answer.text}
        for place, call in enumerate(answer.calls):
            call_id = f"toolu_{self._number}_{place}"
            yield {"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments}

    def _without_binding(self, request: RecordedRequest) -> JsonObject:
        """Return the body without `block_binding`, which only the beta feature knows."""
        thinking = request.body.get("thinking")
        if not isinstance(thinking, dict) or "block_binding" not in thinking:
            return request.body
        if BINDING_BETA not in request.headers.get("anthropic-beta", ""):
            raise BrokenRule("thinking.block_binding: Extra inputs are not permitted")
        plain = {name: value for name, value in thinking.items() if name != "block_binding"}
        return {**request.body, "thinking": plain}

    def _check_thoughts(self, body: JsonObject) -> None:
        messages = objects(body.get("messages"))
        thinking = body.get("thinking", {})
        config = thinking if isinstance(thinking, dict) else {}
        for index, message in enumerate(messages):
            for position, block in enumerate(blocks_of(message)):
                if block["type"] in THINKING:
                    where = f"messages.{index}.content.{position}"
                    before = _digest({**body, "messages": [*messages[:index]]})
                    self._check_thought(block, where, before, "block_binding" in config)
        is_loop = blocks_of(messages[-1])[0]["type"] == "tool_result"
        if is_loop and config.get("type") == "enabled":
            first = blocks_of(messages[-2])[0]["type"]
            if first not in THINKING:
                raise BrokenRule(
                    f"Expected `thinking` or `redacted_thinking`, but found `{first}`."
                )

    def _count_seen(self, body: JsonObject) -> int:
        """Return the number of thoughts that are neither dropped nor ignored."""
        messages = objects(body.get("messages"))
        first, seen = 0, 0
        if self.forgets_earlier_turns:
            others = [
                index
                for index, message in enumerate(messages)
                if any(b["type"] in USER_BLOCKS - {"tool_result"} for b in blocks_of(message))
                and message["role"] == "user"
            ]
            first = max(others, default=0)
        for index, message in enumerate(messages):
            for block in blocks_of(message):
                if block["type"] not in THINKING:
                    continue
                _, digest = self._thoughts[str(block.get("signature") or block.get("data"))]
                before = _digest({**body, "messages": [*messages[:index]]})
                # One that does not fit its history is dropped with all later ones.
                if self.binds_thinking and digest != before:
                    return seen
                seen += index >= first
        return seen

    def _check_thought(self, block: JsonObject, where: str, before: str, drops: bool) -> None:
        opaque = str(block.get("signature") or block.get("data"))
        text, digest = self._thoughts.get(opaque, (None, ""))
        if text is None or block.get("thinking", text) != text:
            raise BrokenRule(f"{where}: Invalid `signature` in `thinking` block")
        if self.binds_thinking and digest != before and not drops:
            raise BrokenRule(
                f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different "
                "conversation. Remove the block, or set "
                '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
            )

    def _use_cache(self, body: JsonObject) -> CacheUsage:
        """Find the longest cached prefix, and store the marked ones."""
        blocks = [*objects(body.get("tools")), *system_blocks(body)]
        for message in objects(body["messages"]):
            blocks += blocks_of(message)
        digest, digests, marks = hashlib.sha256(), [], []
        for index, block in enumerate(blocks):
            plain = {name: value for name, value in block.items() if name != "cache_control"}
            digest.update(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS))
            digests.append(digest.hexdigest())
            if "cache_control" in block:
                marks.append(index)
        found = [
            index + 1
            for mark in marks
            for index in range(max(0, mark - LOOKBACK + 1), mark + 1)
            if digests[index] in self._cached
        ]
        self._cached |= {digests[mark] for mark in marks}
        return CacheUsage(max(found, default=0), len(blocks))


def _digest(body: JsonObject) -> str:
    """Return a digest of what precedes an answer: system prompt, tools and messages."""
    prefix = {name: body.get(name) for name in ("system", "tools", "messages")}
    return hashlib.sha256(orjson.dumps(_unmarked(prefix), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _unmarked(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [_unmarked(part) for part in value] if isinstance(value, list) else value
