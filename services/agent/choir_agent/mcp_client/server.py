"""An MCP server of the agent: starts it, has its tools approved, offers them, and starts it again.

A server that ends is started again after a pause that grows to five minutes. Its approved tools stay offered
meanwhile, so that the prompt does not change, and calls of them fail at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

import structlog

from choir_agent.mcp_client.address_requests import AddressTracker, call_with_addresses
from choir_agent.mcp_client.binary_files import BinaryFiles
from choir_agent.mcp_client.call_progress import CallProgress
from choir_agent.mcp_client.content_results import content_output
from choir_agent.mcp_client.content_tools import ContentKind, content_tools, kind_of
from choir_agent.mcp_client.definitions import (
    ServerTools,
    ToolDefinition,
    approval_payload,
    payload_hash,
    read_tools,
)
from choir_agent.mcp_client.faults import McpServerError
from choir_agent.mcp_client.questions import ServerQuestions
from choir_agent.mcp_client.results import tool_output
from choir_agent.mcp_client.sampling import ServerSampling
from choir_agent.mcp_client.server_host import (
    Ability,
    RunningCall,
    ServerHost,
    find_asking_call,
)
from choir_agent.mcp_client.server_tool import McpTool, tool_manifest
from choir_agent.mcp_client.tool_pins import ToolPins
from choir_agent.tools.tool import CallContext, Tool, ToolFailed, ToolOutput, ToolRefused
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.wire.mcp_config import McpServerConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import MAX_PROGRESS_LINES, McpServerState, McpServerStatus

log = structlog.get_logger("choir.agent.mcp")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
STEADY_AFTER_S = 60.0
"""A server that ran so long did not fail at its start: the pauses begin again."""
CHANGE_PAUSE_S = 1.0
"""Changes of the tools within this time are read once."""
MAX_REQUESTS = 5
"""Requests for approval of one server and agent process: a server cannot flood a person."""
MAX_DETAIL = 400


class ServerConnection(Protocol):
    """An initialized connection with a server; see `connection.Connection`, which imports the SDK."""

    end: asyncio.Future[str]
    lists_changed: asyncio.Event
    addresses: AddressTracker

    @property
    def kinds(self) -> frozenset[ContentKind]: ...

    async def list_tools(self) -> list[JsonObject]: ...

    async def has_content(self, kind: ContentKind) -> bool: ...

    async def call(
        self,
        tool: ToolDefinition,
        arguments: JsonObject,
        timeout_s: float,
        progress: CallProgress,
    ) -> JsonObject: ...


Connect = Callable[[ServerHost], AbstractAsyncContextManager[ServerConnection]]


class ToolPublisher(Protocol):
    """Receiver of the tools that are offered, and of each change of a server's state."""

    def publish(self, server: str, tools: list[Tool]) -> tuple[str, ...]:
        """Offer these tools of a server and no others; return the names that were taken already."""
        ...

    def record_change(self) -> None:
        """Note that the state of a server has changed."""
        ...


class McpServer:
    """One server."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        *,
        connect: Connect,
        pins: ToolPins,
        questions: ServerQuestions,
        files: BinaryFiles,
        sampling: ServerSampling | None,
        publisher: ToolPublisher,
    ) -> None:
        """`sampling` is None if the server may not use a model."""
        self._name, self._config = name, config
        self._connect, self._pins, self._publisher = connect, pins, publisher
        self._questions, self._sampling, self._files = questions, sampling, files
        self._connection: ServerConnection | None = None
        self._offered: dict[str, ToolDefinition] = {}
        self._pin = ""
        self._kinds: frozenset[ContentKind] = frozenset()
        """The kinds that were not empty at the server."""
        self._requests: set[str] = set()
        self._calls: list[RunningCall] = []
        self._state: McpServerState = "starting"
        self._detail = ""
        self._last_reason = ""
        """Why it ended the last time."""

    @property
    def status(self) -> McpServerStatus:
        """The state that is shown to people."""
        detail = escape_hidden(self._detail, keep="")[:MAX_DETAIL]
        reports = [call.progress.text for call in self._calls if call.progress.text]
        return McpServerStatus(
            name=self._name,
            state=self._state,
            tools=tuple(sorted(self._offered)),
            detail=detail,
            progress=tuple(text[:MAX_DETAIL] for text in reports[:MAX_PROGRESS_LINES]),
        )

    async def run(self) -> None:
        """Keep the server running until cancelled."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                self._last_reason = reason = await self._run_once()
                if loop.time() - began > STEADY_AFTER_S:
                    backoff.reset()
                pause_s = backoff.pause_s()
                self._set_state(
                    "restarting",
                    _("{reason} (next start in {pause_s:.0f} s)").format(
                        reason=reason, pause_s=pause_s
                    ),
                )
                log.warning("MCP server ended", server=self._name, reason=reason, pause_s=pause_s)
                await asyncio.sleep(pause_s)
        finally:
            self._offer(None, "")

    @property
    def abilities(self) -> frozenset[Ability]:
        """What the server is told that it may ask for."""
        asks: frozenset[Ability] = frozenset({"elicitation"} if self._config.elicitation else ())
        return asks | {"sampling"} if self._sampling is not None else asks

    async def ask_person(self, params: JsonObject) -> JsonObject:
        """Answer a question of the server to the user; raises ChoirError."""
        return await self._questions.ask(find_asking_call(self._calls), params)

    async def ask_model(self, params: JsonObject) -> JsonObject:
        """Answer a request of the server to a model; raises ChoirError."""
        if self._sampling is None:
            raise McpServerError(_("Choir does not let this server use its models (sampling)."))
        return await self._sampling.ask(find_asking_call(self._calls), params)

    async def call(
        self, tool: ToolDefinition, arguments: JsonObject, context: CallContext
    ) -> ToolOutput:
        """Call a tool of the server; raises ToolFailed."""
        if self._offered.get(tool.canonical) != tool:
            raise ToolRefused("withdrawn", _("The tool was withdrawn: its definition has changed."))
        if self._connection is None:
            raise ToolFailed(
                "server_down",
                _("The MCP server {name} is not running: {detail}").format(
                    name=self._name, detail=self._detail
                )[:MAX_DETAIL],
            )
        timeout_s = self._config.timeout_ms / 1000
        progress = CallProgress(tool.name, self._publisher.record_change)
        running = RunningCall(tool.canonical, context, progress)
        self._calls.append(running)
        try:
            result = await self._call_with_addresses(
                self._connection, tool, running, arguments, timeout_s
            )
        finally:
            self._calls.remove(running)
            if progress.text:
                self._publisher.record_change()
        result, paths = await self._files.extract(self._name, result)
        output = (
            tool_output(self._name, result)
            if tool.method == "tools/call"
            else content_output(self._name, tool.method, arguments, result)
        )
        if not paths:
            return output
        files: JsonObject = {"files": [{"path": path} for path in paths]}
        return replace(output, output=output.output | files)

    async def _call_with_addresses(
        self,
        connection: ServerConnection,
        tool: ToolDefinition,
        running: RunningCall,
        arguments: JsonObject,
        timeout_s: float,
    ) -> JsonObject:
        """Call a tool; a person opens what the server demands. Raises ToolFailed."""

        async def ask(params: JsonObject) -> JsonObject:
            return await self._questions.ask(running, params)

        return await call_with_addresses(
            lambda: connection.call(tool, arguments, timeout_s, running.progress),
            ask if self._config.elicitation else None,
            connection.addresses,
            running.progress,
        )

    async def _run_once(self) -> str:
        """Run the server to its end and return the reason."""
        # with the reason of the last end, if there was one
        self._set_state("starting", self._last_reason)
        try:
            async with self._connect(self) as connection:
                try:
                    reason = await self._serve(connection)
                finally:
                    self._connection = None
                self._set_state("restarting", reason)
                return reason
        except ChoirError as error:
            return error.message
        except Exception as error:
            # Outermost frame of a server: neither its program nor the SDK may end the session.
            fault = _find_fault(error)
            if fault is None:
                log.exception("MCP server failed", server=self._name)
            return fault.message if fault else f"{type(error).__name__}: {error}"

    async def _serve(self, connection: ServerConnection) -> str:
        """Offer the tools of a connection until it ends; return the reason."""
        while True:
            connection.lists_changed.clear()
            listed = await self._list_tools(connection)
            tools = await asyncio.to_thread(read_tools, self._name, self._config, listed)
            content = content_tools(self._name, self._config, connection.kinds)
            tools = replace(tools, content=content)
            payload = approval_payload(self._name, self._config, tools)
            if payload_hash(payload) != self._pin:
                # What was approved is no longer what the server offers.
                self._offer(None, "")
                reason = await self._wait_for_yes(connection, payload)
                if reason is not None:
                    if connection.lists_changed.is_set():
                        continue
                    return reason
            await self._find_content(connection)
            self._connection = connection
            self._offer(tools, payload_hash(payload))
            reason = await _end_of(connection, connection.lists_changed.wait())
            if reason is not None:
                return reason
            await asyncio.sleep(CHANGE_PAUSE_S)

    async def _list_tools(self, connection: ServerConnection) -> list[JsonObject]:
        timeout_s = self._config.start_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await connection.list_tools()
        except TimeoutError as error:
            raise McpServerError(
                _("it did not list its tools within {timeout_s:g} s").format(timeout_s=timeout_s)
            ) from error

    async def _find_content(self, connection: ServerConnection) -> None:
        """Note which lists of content are not empty: many servers announce lists that have nothing.

        A list that is empty later keeps its tools, so that a server cannot change the prompt again and again.
        """
        timeout_s = self._config.start_timeout_ms / 1000
        for kind in sorted(connection.kinds - self._kinds):
            try:
                async with asyncio.timeout(timeout_s):
                    has_content = await connection.has_content(kind)
            except TimeoutError as error:
                raise McpServerError(
                    _("it did not list its {kind} within {timeout_s:g} s").format(
                        kind=kind, timeout_s=timeout_s
                    )
                ) from error
            if has_content:
                self._kinds |= {kind}

    async def _wait_for_yes(self, connection: ServerConnection, payload: JsonObject) -> str | None:
        """Return None after a person's yes to the definitions, or why they are not offered."""
        self._requests.add(payload_hash(payload))
        if len(self._requests) > MAX_REQUESTS:
            self._set_state("failed", _("it has changed its tools too often; restart the agent"))
            return await connection.end
        self._set_state("waiting", _("its tools wait for a person's yes: choirctl approval list"))
        asking = asyncio.create_task(self._pins.ask(self._name, payload))
        try:
            changed = asyncio.create_task(connection.lists_changed.wait())
            await asyncio.wait(
                (asking, changed, connection.end), return_when=asyncio.FIRST_COMPLETED
            )
            changed.cancel()
            if connection.end.done():
                return connection.end.result()
            if not asking.done():
                return _("its tools have changed")
            if asking.result() == "approved":
                return None
        finally:
            asking.cancel()
        why = (
            _("somebody said no to its tools")
            if asking.result() == "rejected"
            else (_("nobody decided on its tools in time"))
        )
        self._set_state("refused", _("{why}; a restart of the agent asks again").format(why=why))
        return await _end_of(connection, connection.lists_changed.wait()) or _(
            "its tools have changed"
        )

    def _offer(self, tools: ServerTools | None, pin: str) -> None:
        """Offer approved tools, or none."""
        self._pin = pin
        definitions: dict[str, ToolDefinition] = {}
        if tools is not None:
            content = [tool for tool in tools.content if kind_of(tool) in self._kinds]
            # Choir's own first: no tool of the server can take their names.
            definitions = {tool.canonical: tool for tool in (*content, *tools.tools)}
        conflicts = self._publisher.publish(
            self._name,
            [
                McpTool(tool_manifest(self._name, self._config, tool, pin), tool, self)
                for tool in definitions.values()
            ],
        )
        self._offered = {name: tool for name, tool in definitions.items() if name not in conflicts}
        if tools is None:
            return
        notes = [
            *tools.left_out,
            *(_("{name}: the name is taken").format(name=name) for name in conflicts),
        ]
        self._set_state(
            "ready", _("left out: {notes}").format(notes="; ".join(notes)) if notes else ""
        )

    def _set_state(self, state: McpServerState, detail: str = "") -> None:
        self._state, self._detail = state, detail
        self._publisher.record_change()


async def _end_of(
    connection: ServerConnection, changed: Coroutine[object, object, object]
) -> str | None:
    """Wait until the server ends, and return the reason, or None if `changed` was first."""
    waiter = asyncio.create_task(changed)
    try:
        await asyncio.wait((waiter, connection.end), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
    return connection.end.result() if connection.end.done() else None


def _find_fault(error: BaseException) -> McpServerError | None:
    """Return the fault inside the groups in which task groups raise errors."""
    if isinstance(error, McpServerError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_find_fault, error.exceptions)), None)
    return None
