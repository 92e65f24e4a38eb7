"""The tools of the MCP server: what each does with an agent, for one client. Apart from the protocol."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from choir_common.errors import DeadlineExceeded, Forbidden, NotFound, Unauthorized
from choir_common.wire.core_jobs import NewJob
from choir_control.api.mcp.arguments import (
    SERVER_TOOLS,
    ApprovalsArguments,
    AskArguments,
    JobStatusArguments,
    MemorySearchArguments,
    ServerTool,
    StartJobArguments,
    parse_arguments,
    read_message,
)
from choir_control.api.mcp.readers import ClientReader
from choir_control.api.mcp.results import (
    MAX_ANSWER,
    ToolAnswer,
    approvals_answer,
    job_answer,
    memory_answer,
)
from choir_control.api.openai.chat_request import UserMessage
from choir_control.api.openai.turns import AgentFailure, Turn, TurnService
from choir_control.api_clients.service import NO_CLIENT, ApiClientService
from choir_control.configuration.api_clients import ApiClient
from choir_control.conversations.job_requests import JobRequests
from choir_control.conversations.job_states import JOB_ID_PREFIX, JobStateReader

PROGRESS_S = 1.0
IDLE_PROGRESS_S = 10.0
MAX_PROGRESS_TEXT = 200
JOB_POLL_S = 1.0
WORKING = "The agent is working."


class CallProgress(Protocol):
    """Sends progress of a call to the client that makes it."""

    async def report(self, seconds: float, text: str) -> None:
        """Report the seconds since the call, and what is new."""


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A call of a tool, and on whose behalf."""

    client: ApiClient
    agent_id: str
    dm: str
    progress: CallProgress | None = None


def list_tools(client: ApiClient) -> list[ServerTool]:
    """Return the tools that a client's scopes allow."""
    return [tool for tool in SERVER_TOOLS.values() if tool.is_for(client.scopes)]


class AgentTools:
    """Executes calls."""

    def __init__(
        self,
        turns: TurnService,
        clients: ApiClientService,
        reader: ClientReader,
        *,
        jobs: JobRequests,
        job_states: JobStateReader,
    ) -> None:
        self._turns = turns
        self._jobs, self._job_states = jobs, job_states
        self._clients = clients
        self._reader = reader

    async def execute(
        self, name: str, arguments: Mapping[str, Any], call: ClientCall
    ) -> ToolAnswer:
        """Run a call; raises NotFound and Forbidden for a tool that the client does not have.

        If it is cancelled, nobody waits any more, but the agent goes on: the message is stored.
        """
        tool = SERVER_TOOLS.get(name)
        if tool is None:
            names = ", ".join(it.name for it in list_tools(call.client))
            raise NotFound(f"There is no tool {name[:64]!r} (there are {names}).")
        if not tool.is_for(call.client.scopes):
            raise Forbidden(
                f"This client has no scope {tool.scopes[0]!r}, which {tool.name} needs. `choirctl client add "
                f"{call.client.name} --scope ...` with all its scopes prints a new token."
            )
        with self._clients.admit(call.client):
            return await self._run(tool, arguments, call)

    async def _run(
        self, tool: ServerTool, arguments: Mapping[str, Any], call: ClientCall
    ) -> ToolAnswer:
        match tool.name:
            case "ask":
                ask = parse_arguments(AskArguments, arguments)
                turn = await self._send(ask, call)
                return await self._wait(turn, call, ask.wait_seconds)
            case "start_job":
                return await self._start_job(parse_arguments(StartJobArguments, arguments), call)
            case "job_status":
                job = parse_arguments(JobStatusArguments, arguments)
                if job.job_id.startswith(JOB_ID_PREFIX):
                    return await self._wait_for_job(job.job_id, call, job.wait_seconds)
                return await self._wait(
                    await self._find_job(job.job_id, call), call, job.wait_seconds
                )
            case "memory_search":
                search = parse_arguments(MemorySearchArguments, arguments)
                hits = await self._reader.search(call.client, call.agent_id, call.dm, search)
                return memory_answer(call.agent_id, hits)
            case "approvals":
                parse_arguments(ApprovalsArguments, arguments)
                pending = await self._reader.list_approvals(call.client, call.agent_id, call.dm)
                return approvals_answer(call.agent_id, pending)
            case _:
                assert_never(tool.name)

    async def _start_job(self, arguments: StartJobArguments, call: ClientCall) -> ToolAnswer:
        """Start a core job, which goes on beside other work of the conversation."""
        task = read_message(arguments)
        job = NewJob(task=task, dm=call.dm, idempotency_key=_key_of(arguments.idempotency_key))
        by = f"the program {call.client.name}"
        start = await self._jobs.start(call.agent_id, job, by=by)
        return job_answer(call.agent_id, start.job_id, call.dm, "working", answer="")

    async def _wait_for_job(self, job_id: str, call: ClientCall, wait_s: int) -> ToolAnswer:
        """Return the state of a core job, when it has ended or after some seconds.

        Raises AgentFailure if it has failed, NotFound if it is not a job of this client, and Unauthorized
        when the client is revoked.
        """
        began = time.monotonic()
        while True:
            job = await self._job_states.read(job_id, call.dm)
            if job is None:
                raise NotFound(_no_job(job_id, call))
            if job.state == "failed":
                raise AgentFailure(f"The job has failed: {job.reason}")
            waited_s = time.monotonic() - began
            if job.state == "done" or waited_s >= wait_s:
                return job_answer(call.agent_id, job_id, call.dm, job.state, job.answer)
            if call.progress is not None and int(waited_s) % int(IDLE_PROGRESS_S) == 0:
                await call.progress.report(round(waited_s, 1), WORKING)
            await asyncio.sleep(JOB_POLL_S)
            if not self._clients.is_valid(call.client):
                raise Unauthorized(NO_CLIENT)

    async def _send(self, arguments: AskArguments, call: ClientCall) -> Turn:
        text = read_message(arguments)
        key = await self._turns.keys.key_of(
            call.dm, text.encode(), own_key=arguments.idempotency_key, is_retry=False
        )
        return await self._turns.send(call.dm, UserMessage(text), key)

    async def _find_job(self, job_id: str, call: ClientCall) -> Turn:
        turn = await self._turns.find(call.dm, call.agent_id, job_id)
        if turn is None:
            raise NotFound(_no_job(job_id, call))
        return turn

    async def _wait(self, turn: Turn, call: ClientCall, wait_s: int) -> ToolAnswer:
        """Wait for the answer, and report progress meanwhile."""
        answer = _PartialAnswer(call.progress)
        pieces = self._turns.follow(turn, call.client)
        is_done = False
        with contextlib.suppress(DeadlineExceeded):
            is_done = await answer.collect(pieces, wait_s)
        return job_answer(
            call.agent_id,
            turn.accepted.inbox_id,
            turn.dm,
            "done" if is_done else "working",
            answer.text,
        )


def _no_job(job_id: str, call: ClientCall) -> str:
    return f"job_id: there is no job {job_id!r} of this client with {call.agent_id}."


def _key_of(own: str | None) -> str | None:
    """Return a key that fits, for one of a client, which may be longer."""
    return own if own is None else hashlib.sha256(own.encode()).hexdigest()


class _PartialAnswer:
    """The answer as far as it is written."""

    def __init__(self, progress: CallProgress | None) -> None:
        self.text = ""
        self._progress = progress
        self._began = time.monotonic()
        self._reported_at = self._began
        self._reported_length = 0

    async def collect(self, pieces: AsyncGenerator[str, None], wait_s: float) -> bool:
        """Take in the pieces; return False if the answer is not complete in time."""
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if len(self.text) <= MAX_ANSWER:
                    self.text += piece
                await self._report()
                if time.monotonic() - self._began >= wait_s:
                    return False
        return True

    async def _report(self) -> None:
        if self._progress is None:
            return
        now = time.monotonic()
        is_new = len(self.text) > self._reported_length
        if now - self._reported_at < (PROGRESS_S if is_new else IDLE_PROGRESS_S):
            return
        news = self.text[self._reported_length :][-MAX_PROGRESS_TEXT:] or WORKING
        self._reported_at, self._reported_length = now, len(self.text)
        await self._progress.report(round(now - self._began, 1), news)
