"""A harness that speaks the Agent Client Protocol, version 1: JSON-RPC lines (agentclientprotocol.com).

Its messages are read one after the other, by `next_update` and the calls that wait for an answer only.
What it says of ids, methods and sessions is believed only where it was asked.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue

from choir_agent.harnesses import acp_requests
from choir_agent.harnesses.acp_messages import (
    PROTOCOL_VERSION,
    about_of,
    cancelled_result,
    cost_of,
    label,
    plan_of,
    result_of,
    usage_of,
)
from choir_agent.harnesses.acp_requests import InvalidRequest, RequestedCall
from choir_agent.harnesses.program import ProgramLines
from choir_agent.harnesses.updates import (
    Asked,
    HarnessAbout,
    HarnessError,
    HarnessUpdate,
    Said,
    Step,
    TurnOutcome,
)
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject

CANCEL_WITHIN_S = 3.0
MAX_TERMINALS = 50
MAX_WAITING = 20
MAX_TOOL_CALLS = 1_000
"""Titles of its own tool calls that are remembered."""
MAX_ID = 200
STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
METHOD_NOT_FOUND, INVALID_PARAMS, FAILED = -32601, -32602, -32603


@dataclass(slots=True)
class _Terminal:
    """A command that the harness asked for."""

    limit: int
    result: ToolResultCommitted | None = None
    waiting: list[tuple[str, JsonObject, JsonObject]] = field(default_factory=list)
    """Requests about it that came before its end: method, parameters and message."""


class AcpSession:
    """A connection with the harness, and its only session."""

    def __init__(self, lines: ProgramLines, workspace: str) -> None:
        self._lines, self._workspace = lines, workspace
        self._about = HarnessAbout(str(PROTOCOL_VERSION))
        self._session_id = ""
        self._next_id = 0
        self._prompt_id: int | None = None
        self._titles: dict[str, str] = {}
        self._terminals: dict[str, _Terminal] = {}

    @property
    def about(self) -> HarnessAbout:
        """What it says of itself."""
        return self._about

    async def initialize(self) -> None:
        """Make the handshake; raises HarnessError if it speaks no version that Choir does."""
        answer = await self._call(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {
                    "fs": {"readTextFile": True, "writeTextFile": True},
                    "terminal": True,
                },
                "clientInfo": {"name": "choir", "title": "Choir", "version": "1"},
            },
        )
        version = answer.get("protocolVersion")
        if version != PROTOCOL_VERSION:
            text = label(str(version))
            raise HarnessError(f"it speaks version {text} of ACP, and Choir {PROTOCOL_VERSION}")
        self._about = about_of(answer)

    async def open(self, session_id: str) -> str:
        """Continue a session, or start one; return its id."""
        params: JsonObject = {"cwd": self._workspace, "mcpServers": []}
        if session_id:
            # What it repeats of the session is already in the log.
            await self._call("session/load", {**params, "sessionId": session_id})
            self._session_id = session_id
            return session_id
        answer = await self._call("session/new", params)
        started = answer.get("sessionId")
        if not isinstance(started, str) or not 0 < len(started) <= MAX_ID:
            raise HarnessError("it started a session without a valid id")
        self._session_id = started
        return started

    async def prompt(self, text: str) -> None:
        """Send an instruction."""
        content: list[JsonValue] = [{"type": "text", "text": text}]
        params: JsonObject = {"sessionId": self._session_id, "prompt": content}
        self._prompt_id = await self._send_request("session/prompt", params)

    async def next_update(self) -> HarnessUpdate:
        """Return what it says or asks for next; answers what needs no call."""
        while True:
            update = await self._take(await self._lines.read())
            if update is not None:
                return update

    async def wait_for_more(self) -> bool:
        """Wait until it has written a message; False at its end. A cancelled wait loses nothing."""
        return await self._lines.has_more(None)

    async def further_update(self, within_s: float) -> HarnessUpdate | None:
        """Return what it says or asks for within some seconds; None if it does not."""
        while await self._lines.has_more(within_s):
            update = await self._take(await self._lines.read())
            if update is not None:
                return update
        return None

    async def cancel(self, open_requests: Iterable[Asked]) -> None:
        """Ask it to end its turn, and answer its requests as cancelled; it has a moment to do so."""
        if self._prompt_id is None:
            return
        params: JsonObject = {"sessionId": self._session_id}
        async with asyncio.timeout(CANCEL_WITHIN_S):
            await self._lines.send({"jsonrpc": "2.0", "method": "session/cancel", "params": params})
            for request in open_requests:
                await request.answer(cancelled_result(request.tool))
            while self._prompt_id is not None:
                update = await self.next_update()
                if isinstance(update, Asked):
                    await update.answer(cancelled_result(update.tool))

    async def _take(self, message: JsonObject) -> HarnessUpdate | None:
        """Return what a message says; answer it if it needs no call."""
        if "method" in message:
            return await self._handle(message)
        if self._prompt_id is not None and message.get("id") == self._prompt_id:
            return self._turn_end(message)
        self._lines.note_strange()
        return None

    async def _call(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return its result; raises HarnessError."""
        number = await self._send_request(method, params)
        while True:
            message = await self._lines.read()
            if "method" in message:
                if "id" in message:
                    await self._fail(message, METHOD_NOT_FOUND, "no session is open")
                continue
            if message.get("id") != number:
                self._lines.note_strange()
                continue
            return result_of(message, method)

    async def _send_request(self, method: str, params: JsonObject) -> int:
        self._next_id += 1
        await self._lines.send(
            {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        )
        return self._next_id

    def _turn_end(self, message: JsonObject) -> TurnOutcome:
        self._prompt_id = None
        try:
            result = result_of(message, "session/prompt")
        except HarnessError as error:
            return TurnOutcome("failed", error.message)
        reason = result.get("stopReason")
        usage = usage_of(result.get("usage"))
        if reason not in STOP_REASONS:
            return TurnOutcome("failed", f"unknown stop reason {label(str(reason))}", usage)
        return TurnOutcome(str(reason), usage=usage)

    async def _handle(self, message: JsonObject) -> HarnessUpdate | None:
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if params.get("sessionId") != self._session_id:
            if "id" in message:
                await self._fail(message, INVALID_PARAMS, "there is no such session")
            return None
        if "id" not in message:
            return self._notice(params) if method == "session/update" else None
        try:
            return await self._request(str(method), params, message)
        except InvalidRequest as error:
            await self._fail(message, INVALID_PARAMS, str(error))
            return None

    async def _request(
        self, method: str, params: JsonObject, message: JsonObject
    ) -> HarnessUpdate | None:
        if method == "terminal/create":
            return await self._create_terminal(params, message)
        if method.startswith("terminal/"):
            await self._use_terminal(method, params, message)
            return None
        calls: dict[str, Callable[[JsonObject], RequestedCall]] = {
            "fs/read_text_file": acp_requests.read_call,
            "fs/write_text_file": acp_requests.write_call,
            "session/request_permission": partial(
                acp_requests.permission_call, titles=self._titles
            ),
        }
        if method not in calls:
            await self._fail(message, METHOD_NOT_FOUND, "Choir has no such method")
            return None
        call = calls[method](params)
        answer = partial(self._answer, message, params, call.tool)
        return Asked(call.tool, call.arguments, answer)

    async def _answer(
        self, message: JsonObject, params: JsonObject, tool: str, result: ToolResultCommitted
    ) -> None:
        is_success = result.status == "success"
        if tool == acp_requests.PERMISSION:
            outcome = acp_requests.permission_outcome(params, result.status)
            await self._reply(message, outcome)
        elif tool == acp_requests.WRITE and is_success:
            await self._reply(message, {})
        elif tool == acp_requests.READ and (text := acp_requests.file_text(result)) is not None:
            await self._reply(message, {"content": text})
        else:
            await self._fail(message, FAILED, acp_requests.error_text(result))

    async def _create_terminal(self, params: JsonObject, message: JsonObject) -> Asked:
        call = acp_requests.command_call(params)
        if len(self._terminals) >= MAX_TERMINALS:
            raise InvalidRequest(f"at most {MAX_TERMINALS} terminals are open; release one")
        limit = params.get("outputByteLimit")
        most = acp_requests.TERMINAL_BYTES
        is_number = isinstance(limit, int) and limit >= 0
        terminal = _Terminal(min(limit, most) if is_number and isinstance(limit, int) else most)
        self._next_id += 1
        name = f"terminal-{self._next_id}"
        self._terminals[name] = terminal
        await self._reply(message, {"terminalId": name})

        async def store(result: ToolResultCommitted) -> None:
            terminal.result = result
            for request in terminal.waiting:
                await self._use_terminal(*request)

        return Asked(call.tool, call.arguments, store)

    async def _use_terminal(self, method: str, params: JsonObject, message: JsonObject) -> None:
        """Answer about a command, after its end."""
        terminal = self._terminals.get(str(params.get("terminalId")))
        if terminal is None:
            await self._fail(message, INVALID_PARAMS, "there is no such terminal")
            return
        if terminal.result is None:
            if len(terminal.waiting) >= MAX_WAITING:
                raise InvalidRequest("too many requests wait for the end of this command")
            terminal.waiting.append((method, params, message))
            return
        output = acp_requests.command_output(terminal.result, terminal.limit)
        match method:
            case "terminal/output":
                await self._reply(message, output)
            case "terminal/wait_for_exit":
                status = output["exitStatus"]
                await self._reply(message, status if isinstance(status, dict) else {})
            case "terminal/kill":
                await self._reply(message, {})
            case "terminal/release":
                del self._terminals[str(params.get("terminalId"))]
                await self._reply(message, {})
            case _:
                await self._fail(message, METHOD_NOT_FOUND, "Choir has no such method")

    def _notice(self, params: JsonObject) -> HarnessUpdate | None:
        update = params.get("update")
        if not isinstance(update, dict):
            return None
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                content = update.get("content")
                text = content.get("text") if isinstance(content, dict) else None
                return Said(text) if isinstance(text, str) else None
            case "tool_call" | "tool_call_update":
                return self._step(update)
            case "plan":
                return plan_of(update.get("entries"))
            case "usage_update":
                return cost_of(update.get("cost"))
            case _:
                return None

    def _step(self, update: JsonObject) -> Step | None:
        call_id, title = str(update.get("toolCallId"))[:MAX_ID], update.get("title")
        if isinstance(title, str) and len(self._titles) < MAX_TOOL_CALLS:
            self._titles[call_id] = title[: acp_requests.MAX_TITLE]
        status = update.get("status")
        if update.get("sessionUpdate") == "tool_call_update" and status not in (
            "completed",
            "failed",
        ):
            return None
        return Step(label(self._titles.get(call_id, "")), label(str(status or "pending")))

    async def _reply(self, message: JsonObject, result: JsonObject) -> None:
        await self._lines.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _fail(self, message: JsonObject, code: int, text: str) -> None:
        error: JsonObject = {"code": code, "message": text}
        await self._lines.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
