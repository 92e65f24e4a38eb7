"""Questions of an MCP server to a person (elicitation), as requests for approval. See decision 101.

The answer comes from the person alone: neither the model nor a rule of the policy can give it.
"""

import asyncio
from typing import Literal

import structlog
from pydantic import JsonValue

from choir_agent.mcp_client.faults import McpServerError
from choir_agent.mcp_client.server_host import RunningCall
from choir_agent.mcp_client.tool_pins import ApprovalSource
from choir_common.errors import InvalidRequest
from choir_common.mcp_forms import MAX_TEXT, check_address, find_secret, read_form
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse

log = structlog.get_logger("choir.agent.mcp")

REQUEST_TYPE: Literal["mcp_question"] = "mcp_question"
MAX_QUESTIONS = 10
"""Questions of one call: a server cannot flood a person."""
REFUSAL = (
    "Choir does not ask people for secrets in a form ({place}): the answer would be stored. Take them from "
    "`mcp.servers.NAME.secrets` of config.json, or let the user open an address (mode url)."
)


class ServerQuestions:
    """Passes the questions of one server on."""

    def __init__(self, server: str, approvals: ApprovalSource) -> None:
        self._server, self._approvals = server, approvals
        self._turn = asyncio.Lock()

    async def ask(self, call: RunningCall, params: JsonObject) -> JsonObject:
        """Return the person's answer as an `ElicitResult`; one question is open at a time.

        Nobody answers in time: `cancel`. Raises McpServerError for a question that no person is asked.
        """
        payload = self._payload(call, params)
        async with call.progress.pause(), self._turn:
            call.question_count += 1
            if call.question_count > MAX_QUESTIONS:
                raise McpServerError(f"A call may ask the user at most {MAX_QUESTIONS} times.")
            context = call.context
            request = ApprovalRequest(
                request_type=REQUEST_TYPE,
                call_id=f"mcp-question:{context.call_id}:{call.question_count}",
                payload=payload,
                job_id=context.job_id,
                dm=context.dm,
            )
            log.info("MCP server asks the user", server=self._server, call_id=context.call_id)
            try:
                async with asyncio.timeout(call.progress.pause_left_s()):
                    answer = await self._approvals.decision(request)
            except TimeoutError:
                answer = None
        return _result(answer, has_form="form" in payload)

    def _payload(self, call: RunningCall, params: JsonObject) -> JsonObject:
        """Return what a person is shown; raises McpServerError."""
        message, form, url = (params.get(key) for key in ("message", "requestedSchema", "url"))
        if not isinstance(message, str) or len(message) > MAX_TEXT:
            raise McpServerError(f"A question has a message of at most {MAX_TEXT} characters.")
        payload: JsonObject = {"server": self._server, "tool": call.tool, "message": message}
        try:
            if params.get("mode") == "url":
                check_address(str(url))
                return payload | {"url": url}
            if not isinstance(form, dict):
                raise InvalidRequest("The question has no requestedSchema.")
            place = find_secret(message, form)
            if place is not None:
                raise McpServerError(REFUSAL.format(place=place))
            read_form(form)
        except InvalidRequest as error:
            raise McpServerError(f"Choir does not show this question: {error.message}") from error
        return payload | {"form": form}


def _result(answer: ApprovalResponse | None, *, has_form: bool) -> JsonObject:
    if answer is None or answer.status not in ("approved", "rejected"):
        return {"action": "cancel"}
    if answer.status == "rejected":
        return {"action": "decline"}
    content: JsonValue = answer.values or {}
    return {"action": "accept", "content": content} if has_form else {"action": "accept"}
