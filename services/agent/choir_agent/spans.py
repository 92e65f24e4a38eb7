"""OpenTelemetry spans of the agent, named by the conventions for generative AI.

Opened by the lanes, `metered`, `compaction` and `execute`. Agent and session are attributes of the whole
process (`about`); the lane is an attribute of each span. Spans contain no content: a value that a model or
a tool returned is recorded only if it is a known keyword or a number. The model name that a provider
returns, for example, could be any text.
"""

import contextlib
from collections.abc import Iterator

from opentelemetry.trace import Span, SpanKind

from choir_common.tracing import Attributes, failed, working
from choir_common.wire.config import ModelConfig
from choir_common.wire.runtime import AgentBoot

SERVICE = "choir-agent"
FINISHES = ("stop", "length", "tool_calls", "function_call", "content_filter")


def about(boot: AgentBoot) -> dict[str, str]:
    """Return the resource attributes of this process: agent, session and epoch."""
    return {
        "service.instance.id": f"{boot.session_id}/{boot.epoch}",
        "choir.agent": boot.agent_id,
        "choir.session": boot.session_id,
    }


@contextlib.contextmanager
def lane_work(lane: str, turn_id: str, parent: str | None = None) -> Iterator[None]:
    """Span of a turn or a core job and all its calls; `parent` is the span of the user's message."""
    said: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "choir.lane": lane,
        "choir.turn": turn_id,
    }
    with working(f"invoke_agent {lane.partition(':')[0]}", said, parent=parent):
        yield


@contextlib.contextmanager
def compaction(lane: str) -> Iterator[None]:
    """Span of a model call that compacts a lane."""
    with working("compact", {"choir.lane": lane}):
        yield


@contextlib.contextmanager
def chat(model: ModelConfig, lane: str) -> Iterator[Span]:
    """Span of a model call; `answered` adds its result."""
    said: dict[str, str | int | float | tuple[str, ...]] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # the protocol; the model's actual vendor is unknown here
        "gen_ai.request.model": model.model,
    }
    if lane:
        said["choir.lane"] = lane
    if model.max_completion_tokens is not None:
        said["gen_ai.request.max_tokens"] = model.max_completion_tokens
    if model.temperature is not None:
        said["gen_ai.request.temperature"] = model.temperature
    with working(f"chat {model.model}", said, kind=SpanKind.CLIENT) as span:
        yield span


def answered(span: Span, finish: str, tokens: tuple[int, int, int]) -> None:
    """Record how a model call finished, and its input, output and cached tokens."""
    sent, said, cached = tokens
    span.set_attribute(
        "gen_ai.response.finish_reasons", (finish if finish in FINISHES else "other",)
    )
    span.set_attribute("gen_ai.usage.input_tokens", sent)
    span.set_attribute("gen_ai.usage.output_tokens", said)
    span.set_attribute("gen_ai.usage.cache_read.input_tokens", cached)


@contextlib.contextmanager
def waiting(what: str, call_id: str, lane: str) -> Iterator[None]:
    """Span of the time that a call waits for its locks or for a human's decision."""
    with working(f"wait {what}", {"gen_ai.tool.call.id": call_id, "choir.lane": lane}):
        yield


@contextlib.contextmanager
def tool_call(tool: str, call_id: str, lane: str) -> Iterator[Span]:
    """Span of a permitted call while its tool runs; `ended` adds its status."""
    said: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call_id,
        "choir.lane": lane,
    }
    with working(f"execute_tool {tool}", said) as span:
        yield span


def ended(span: Span, status: str) -> None:
    """Record a call's status, as in the log."""
    span.set_attribute("choir.tool.status", status)
    if status != "success":
        failed(span, status)
