"""Dispatch of host tools by name. A tool's failure is its result, not an error of the request."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog

from choir_common.errors import ChoirError, InvalidRequest, NotFound
from choir_common.wire.agent_questions import ASK_TOOL, STOP_TOOL
from choir_common.wire.client_tools import CALL_TOOL, LIST_TOOL
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.money import RELEASE_TOOL, RESERVE_TOOL, SPENT_TOOL
from choir_common.wire.rpc import HOST_TOOL, HostToolRequest, HostToolResponse
from choir_control.agents.host_tools.browse import BrowseTool
from choir_control.agents.host_tools.log_search import LogSearchTool
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.agents.host_tools.money import MoneyTools
from choir_control.log.leases.store import Lease

log = structlog.get_logger("choir.hosttools")

# One agent with many calls must not delay the memory calls of the others.
CONCURRENT_PER_AGENT = 8
MAX_CALL_ID = 150
# Model calls must not wait for slow tools, nor tools for other agents.
_KINDS = {
    **dict.fromkeys((RESERVE_TOOL, RELEASE_TOOL, SPENT_TOOL), "money"),
    ASK_TOOL: "question",
    CALL_TOOL: "client",
}

# The methods of several classes that have this signature, by the name of their tool.
Handler = Callable[[Lease, str, JsonObject], Awaitable[WireModel]]


class ScheduleHandlers(Protocol):
    """Handlers of the tools `choir.schedule.*`, which are in the conversations' package."""

    async def create(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...

    async def list_all(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...

    async def update(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...

    async def delete(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...


class QuestionHandlers(Protocol):
    """Handlers of the tools `choir.agent.*`, which are in the conversations' package."""

    async def ask(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...

    async def stop(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...


class ClientToolHandlers(Protocol):
    """Handlers of the tools `choir.client.*`, which are in the package of the API's clients."""

    async def list_tools(self, lease: Lease, _: str, arguments: JsonObject) -> WireModel: ...

    async def call(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel: ...


class HostToolExecutor:
    """Executor of host tools, with a limit on concurrent calls per agent."""

    def __init__(
        self,
        *,
        memory: MemoryTools,
        browse: BrowseTool,
        log_search: LogSearchTool,
        money: MoneyTools,
        schedules: ScheduleHandlers,
        questions: QuestionHandlers,
        client_tools: ClientToolHandlers,
    ) -> None:
        self._handlers: Mapping[str, Handler] = {
            "choir.memory.query": memory.query,
            "choir.memory.upsert": memory.upsert,
            "choir.memory.collections": memory.collections,
            # Not offered to models: the agent calls it when a tool has failed.
            "choir.memory.hints": memory.hints,
            # Not offered to models: the agent calls it when a user has sent a message.
            "choir.memory.remind": memory.remind,
            "choir.web.browse": browse.browse,
            "choir.schedule.create": schedules.create,
            "choir.schedule.list": schedules.list_all,
            "choir.schedule.update": schedules.update,
            "choir.schedule.delete": schedules.delete,
            LIST_TOOL: client_tools.list_tools,
            CALL_TOOL: client_tools.call,
            ASK_TOOL: questions.ask,
            # Not offered to models: the agent calls it for a question that was cancelled.
            STOP_TOOL: questions.stop,
            # Not offered to models: the agent calls it for `choir.memory.query` with the store
            # `working`.
            HOST_TOOL: log_search.search,
            # Not offered to models: the agent calls it for rules of its policy.
            SPENT_TOOL: money.spent,
            # Not offered to models: the agent calls them for its model calls.
            RESERVE_TOOL: money.reserve,
            RELEASE_TOOL: money.release,
        }
        self._slots: dict[tuple[str, str], asyncio.Semaphore] = {}

    async def execute(self, lease: Lease, request: HostToolRequest) -> HostToolResponse:
        """Run one call and return its result; a ChoirError becomes a result with status "error"."""
        kind = _KINDS.get(request.tool_name, "tool")
        slots = self._slots.setdefault(
            (lease.agent_id, kind), asyncio.Semaphore(CONCURRENT_PER_AGENT)
        )
        try:
            handler = self._handlers.get(request.tool_name)
            if handler is None:
                names = ", ".join(sorted(self._handlers))
                raise NotFound(
                    f"There is no host tool {request.tool_name[:80]!r}; host tools: {names}."
                )
            if not 0 < len(request.call_id) <= MAX_CALL_ID or "\x00" in request.call_id:
                raise InvalidRequest(
                    f"call_id must have 1 to {MAX_CALL_ID} characters, and no NUL."
                )
            # Further calls of this agent wait here.
            async with slots:
                in_conversation = lease.in_conversation(request.dm)
                outcome = await handler(in_conversation, request.call_id, request.input)
        except ChoirError as error:
            log.info(
                "host tool failed",
                session=lease.session_id,
                tool=request.tool_name[:80],
                code=error.code,
            )
            return HostToolResponse(
                call_id=request.call_id,
                status="error",
                output={"code": error.code, "message": error.message},
            )
        return HostToolResponse(
            call_id=request.call_id, status="success", output=outcome.model_dump(mode="json")
        )
