"""OpenTelemetry spans of the agent, named by the conventions for generative AI.

Agent and session are attributes of the whole process (`resource_attributes`); the lane is an attribute of
each span. Spans contain no content: a value that a model or a tool returned is recorded only if it is a known
keyword or a number. The model name that a provider returns, for example, could be any text.
"""

import contextlib
from collections.abc import Iterator

from opentelemetry.trace import Span, SpanKind

from choir_common.tracing import Attributes, mark_failed, work_span
from choir_common.wire.config import ModelConfig
from choir_common.wire.rpc import AgentStartParameters

SERVICE = "choir-agent"
FINISH_REASONS = ("stop", "length", "tool_calls", "function_call", "content_filter")


def resource_attributes(boot: AgentStartParameters) -> dict[str, str]:
    """Return the resource attributes of this process: agent, session and epoch."""
    return {
        "service.instance.id": f"{boot.session_id}/{boot.epoch}",
        "choir.agent": boot.agent_id,
        "choir.session": boot.session_id,
    }


@contextlib.contextmanager
def lane_span(lane: str, turn_id: str, parent: str | None = None) -> Iterator[None]:
    """Span of a turn or a core job and all its calls; `parent` is the span of the user's message."""
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "choir.lane": lane,
        "choir.turn": turn_id,
    }
    with work_span(f"invoke_agent {lane.partition(':')[0]}", attributes, parent=parent):
        yield


@contextlib.contextmanager
def compaction_span(lane: str) -> Iterator[None]:
    """Span of a model call that compacts a lane."""
    with work_span("compact", {"choir.lane": lane}):
        yield


@contextlib.contextmanager
def chat_span(model: ModelConfig, lane: str) -> Iterator[Span]:
    """Span of a model call; `answered` adds its result."""
    attributes: dict[str, str | int | float | tuple[str, ...]] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # the protocol; the model's actual vendor is unknown here
        "gen_ai.request.model": model.model,
    }
    if lane:
        attributes["choir.lane"] = lane
    if model.max_completion_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = model.max_completion_tokens
    if model.temperature is not None:
        attributes["gen_ai.request.temperature"] = model.temperature
    with work_span(f"chat {model.model}", attributes, kind=SpanKind.CLIENT) as span:
        yield span


def record_usage(span: Span, finish: str, tokens: tuple[int, int, int]) -> None:
    """Record how a model call finished, and its input, output and cached tokens."""
    sent, received, cached = tokens
    span.set_attribute(
        "gen_ai.response.finish_reasons", (finish if finish in FINISH_REASONS else "other",)
    )
    span.set_attribute("gen_ai.usage.input_tokens", sent)
    span.set_attribute("gen_ai.usage.output_tokens", received)
    span.set_attribute("gen_ai.usage.cache_read.input_tokens", cached)


@contextlib.contextmanager
def wait_span(what: str, call_id: str, lane: str) -> Iterator[None]:
    """Span of the time that a call waits for its locks or for a human's decision."""
    with work_span(f"wait {what}", {"gen_ai.tool.call.id": call_id, "choir.lane": lane}):
        yield


@contextlib.contextmanager
def tool_call_span(tool: str, call_id: str, lane: str) -> Iterator[Span]:
    """Span of a permitted call while its tool runs; `record_status` adds its status."""
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "choir.lane": lane,
    }
    with work_span(f"execute_tool {tool}", attributes) as span:
        yield span


def record_status(span: Span, status: str) -> None:
    """Record a call's status, as in the log."""
    span.set_attribute("choir.tool.status", status)
    if status != "success":
        mark_failed(span, status)
