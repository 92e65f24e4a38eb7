"""Requests of an MCP server to a model (sampling): what is allowed, and a person's yes. See decision 101.

The model gets the server's text alone: no tools, no conversation. So an answer can contain nothing that the
server does not have, and all of it goes to the server, never into a prompt of the agent.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import structlog
from pydantic import JsonValue

from choir_agent.mcp_client.faults import McpServerError
from choir_agent.mcp_client.server_host import RunningCall
from choir_agent.mcp_client.tool_pins import ApprovalSource
from choir_common.lanes import is_edge
from choir_common.policy import PolicyCall, decide
from choir_common.wire.mcp_config import McpSamplingConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy, PolicyDecision
from choir_common.wire.rpc import ApprovalRequest

log = structlog.get_logger("choir.agent.mcp")

TOOL = "sampling"
"""Its name in rules of the policy: `mcp.NAME.sampling`."""
MAX_REQUEST_CHARS = 60_000
MAX_MESSAGES = 100
HOUR_S = 3_600.0
ONLY_TEXT = "Choir answers requests of text only: without tools, images and sound."


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What a server wants a model to complete."""

    server: str
    model: str
    """Its name in config.json."""
    max_tokens: int
    system: str
    messages: tuple[tuple[str, str], ...]
    """Role (`user` or `assistant`) and text."""

    def to_input(self) -> JsonObject:
        """Return what a person is shown."""
        messages: list[JsonValue] = [{"role": role, "text": text} for role, text in self.messages]
        limits: JsonObject = {"model": self.model, "max_tokens": self.max_tokens}
        return limits | {"system": self.system, "messages": messages}


@dataclass(frozen=True, slots=True)
class Sample:
    """A model's answer."""

    text: str
    model: str
    is_cut: bool
    """Whether the limit of tokens ended it."""


class SampleSource(Protocol):
    """The models of the agent, within its budgets."""

    async def sample(self, request: SampleRequest, call: RunningCall) -> Sample:
        """Return the answer; raises ChoirError, with a text for the server."""
        ...


@dataclass(slots=True)
class SampleCount:
    """What a server had of models in this process."""

    times: deque[float] = field(default_factory=deque)
    """When the requests of the last hour began, in monotonic seconds."""
    is_allowed: bool = False
    """Whether a person said yes in this session."""

    def begin(self, most: int) -> None:
        """Count a request; raises McpServerError above `most` in an hour."""
        now = time.monotonic()
        while self.times and self.times[0] <= now - HOUR_S:
            self.times.popleft()
        if len(self.times) >= most:
            raise McpServerError(f"The owner lets this server use a model {most} times an hour.")
        self.times.append(now)


class ServerSampling:
    """Answers the requests of one server."""

    def __init__(
        self,
        server: str,
        config: McpSamplingConfig,
        *,
        approvals: ApprovalSource,
        model: SampleSource,
        count: SampleCount,
    ) -> None:
        self._server, self._config = server, config
        self._approvals, self._model, self._count = approvals, model, count
        self._turn = asyncio.Lock()

    async def ask(self, call: RunningCall, params: JsonObject) -> JsonObject:
        """Return a `CreateMessageResult`; one request runs at a time.

        Raises McpServerError if it is not allowed, and the errors of the model.
        """
        request = read_request(self._server, self._config, params)
        async with call.progress.pause(), self._turn:
            self._count.begin(self._config.calls_per_hour)
            try:
                async with asyncio.timeout(call.progress.pause_left_s()):
                    await self._get_permission(call, request)
                    sample = await self._model.sample(request, call)
            except TimeoutError:
                raise McpServerError("Nobody allowed it, or no model answered, in time.") from None
        log.info(
            "MCP server used a model",
            server=self._server,
            tool=call.tool,
            call_id=call.context.call_id,
            model=request.model,
            characters=len(sample.text),
        )
        return {
            "role": "assistant",
            "content": {"type": "text", "text": sample.text},
            "model": sample.model,
            "stopReason": "maxTokens" if sample.is_cut else "endTurn",
        }

    async def _get_permission(self, call: RunningCall, request: SampleRequest) -> None:
        """Return if a rule allows it, or a person does: once in a session, by default."""
        context = call.context
        policy = context.settings.policy if context.settings is not None else AgentPolicy()
        decision = self._decide(policy, call)
        if decision.action == "deny":
            raise McpServerError("The owner's policy denies this server the use of a model.")
        if decision.action == "allow":
            return
        config = self._config
        request_of_call = ApprovalRequest(
            request_type="call",
            call_id=f"mcp-sampling:{context.call_id}:{len(self._count.times)}",
            payload={"tool": f"mcp.{self._server}.{TOOL}", "input": request.to_input()},
            why=f"{decision.why}\nThe MCP server {self._server} wants a model to complete its own text. It "
            "gets the answer. A yes lets it do so until the session ends, at most "
            f"{config.calls_per_hour} times an hour with {config.max_tokens} tokens each.".strip(),
            grants="hosts",
            job_id=context.job_id,
            dm=context.dm,
        )
        answer = await self._approvals.decision(request_of_call)
        if answer is None or answer.status != "approved":
            raise McpServerError("The user did not allow this server to use a model.")
        self._count.is_allowed = True

    def _decide(self, policy: AgentPolicy, call: RunningCall) -> PolicyDecision:
        policy_call = PolicyCall(
            agent_id=policy.agent_id,
            tool=f"mcp.{self._server}.{TOOL}",
            lane="edge" if is_edge(call.context.lane) else "core",
            role=policy.role,
            arguments={},
        )
        return decide(
            policy.rules, policy_call, datetime.now(UTC), needs_approval=not self._count.is_allowed
        )


def read_request(server: str, config: McpSamplingConfig, params: JsonObject) -> SampleRequest:
    """Return a `sampling/createMessage` request; raises McpServerError if it is not plain text."""
    if params.get("tools") or params.get("includeContext") not in (None, "none"):
        raise McpServerError(f"{ONLY_TEXT[:-1]}, and without the context of the conversation.")
    listed, limit = params.get("messages"), params.get("maxTokens")
    messages = [_read_message(entry) for entry in (listed if isinstance(listed, list) else [])]
    system = str(params.get("systemPrompt") or "")
    size = len(system) + sum(len(text) for _, text in messages)
    if not 0 < len(messages) <= MAX_MESSAGES or size > MAX_REQUEST_CHARS:
        raise McpServerError(
            f"A request has 1 to {MAX_MESSAGES} messages and at most {MAX_REQUEST_CHARS} characters."
        )
    tokens = limit if isinstance(limit, int) and limit > 0 else config.max_tokens
    return SampleRequest(
        server=server,
        model=config.model,
        max_tokens=min(tokens, config.max_tokens),
        system=system,
        messages=tuple(messages),
    )


def _read_message(message: JsonValue) -> tuple[str, str]:
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else [content]
    texts: list[str] = []
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "text":
            raise McpServerError(ONLY_TEXT)
        texts.append(str(block.get("text", "")))
    role = message.get("role") if isinstance(message, dict) else None
    return ("assistant" if role == "assistant" else "user", "\n".join(texts))
