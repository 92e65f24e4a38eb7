"""HTTP client for control's eight RPC verbs. `send_hello` registers this process (INIT_HELLO).

`signal_stream` follows the stream of control's signals.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import httpx2

from choir_common.backoff import Backoff
from choir_common.errors import (
    ChoirError,
    Fenced,
    InvalidRequest,
    OutcomeUnknown,
    StartupError,
    Unauthorized,
    Unavailable,
)
from choir_common.http.client import make_client
from choir_common.http.response_parser import read_problem
from choir_common.http.socket_transport import UnixTransport
from choir_common.ids import new_id
from choir_common.tracing import trace_headers
from choir_common.wire.model import WireModel
from choir_common.wire.rpc import (
    VERBS,
    Ack,
    AgentStartParameters,
    ApprovalRequest,
    ApprovalResponse,
    ConfigRequest,
    ConfigResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    HelloRequest,
    HelloResponse,
    HostToolRequest,
    HostToolResponse,
    SecretsRequest,
    SecretsResponse,
    StatusRequest,
    TerminateRequest,
)

R = TypeVar("R", bound=WireModel)

CALL_TIMEOUT_S = 10.0
# Control may have to fetch the proposed branch from its remote.
APPROVAL_TIMEOUT_S = 25.0
SERVER_ERROR = 500


class ControlClient:
    """Client for control, authenticated with the lease token of this session."""

    def __init__(self, boot: AgentStartParameters) -> None:
        headers = {
            "Authorization": f"Bearer {boot.lease_token}",
            "X-Choir-Session-Id": boot.session_id,
            "Content-Type": "application/json",
        }
        self.http = make_client(
            boot.endpoint,
            headers=headers,
            timeout_s=CALL_TIMEOUT_S,
            ca_pem=boot.ca_pem or None,
            unix_transport=UnixTransport,
        )
        self.agent_id = boot.agent_id
        self.session_id = boot.session_id
        # Computed once: letting the client merge URL and headers costs as much as the rest of a call.
        self._headers = [*headers.items(), ("Host", self.http.base_url.netloc.decode())]
        self._urls = {verb: self.http.base_url.join(f"/rpc/{verb}") for verb in VERBS}

    async def close(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def hello(self, request: HelloRequest) -> HelloResponse:
        """Register this process; raises Fenced or Unauthorized if the session is no longer ours."""
        return await self._call("INIT_HELLO", request, HelloResponse)

    async def get_secrets(self, request: SecretsRequest) -> SecretsResponse:
        """Fetch secrets of our bound resources."""
        return await self._call("GET_SECRETS", request, SecretsResponse)

    async def heartbeat(
        self, request: HeartbeatRequest, patches: Sequence[bytes]
    ) -> HeartbeatResponse:
        """Send a heartbeat with new events; return the durable head.

        `patches` contains the events as JSON, and `request.patches` is empty: each event is rendered only
        once.
        """
        head = request.model_dump_json(exclude={"patches"}).encode()
        body = b"".join((head[:-1], b',"patches":[', b",".join(patches), b"]}"))
        return await self._post("HEARTBEAT", body, HeartbeatResponse)

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Request a human's decision; the same call_id always gets the same approval."""
        return await self._call("REQUEST_APPROVAL", request, ApprovalResponse, APPROVAL_TIMEOUT_S)

    async def report_status(self, report: StatusRequest) -> None:
        """Report a lane's status, or the draft of its reply."""
        await self._call("REPORT_STATUS", report, Ack)

    async def terminate(self, request: TerminateRequest) -> None:
        """Report that the log is flushed and this process is about to exit."""
        await self._call("TERMINATE_SELF", request, Ack)

    async def fetch_config(self, request: ConfigRequest) -> ConfigResponse:
        """Fetch the settings if they are newer than ours."""
        return await self._call("FETCH_DYNAMIC_CONFIG", request, ConfigResponse)

    async def use_host_tool(self, request: HostToolRequest, timeout_s: float) -> HostToolResponse:
        """Run a tool on the host, under its call_id."""
        return await self._call("EXECUTE_HOST_TOOL", request, HostToolResponse, timeout_s)

    async def _call(
        self, verb: str, request: WireModel, answer: type[R], timeout_s: float = CALL_TIMEOUT_S
    ) -> R:
        return await self._post(verb, request.model_dump_json().encode(), answer, timeout_s)

    async def _post(
        self, verb: str, body: bytes, answer: type[R], timeout_s: float = CALL_TIMEOUT_S
    ) -> R:
        request = httpx2.Request(
            "POST",
            self._urls[verb],
            headers=[
                *self._headers,
                ("X-Choir-Request-Id", new_id("req")),
                *trace_headers().items(),
            ],
            content=body,
            extensions={
                "timeout": {"connect": 5.0, "pool": 5.0, "read": timeout_s, "write": timeout_s}
            },
        )
        try:
            response = await self.http.send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            # Without a connection the request was certainly not executed.
            raise Unavailable(f"control is unreachable: {error}") from error
        except httpx2.TransportError as error:
            # Control may have executed the request although its response was lost.
            raise OutcomeUnknown(f"{verb} was interrupted: {error!r}") from error
        if response.is_success:
            return answer.model_validate_json(response.content)
        wait = response.headers.get("Retry-After")
        raise error_from_response(response.status_code, response.content, wait)


def error_from_response(status: int, body: bytes, retry_after: str | None = None) -> ChoirError:
    """Return the error in a response; a server error without a problem document counts as temporary."""
    error = read_problem(status, body, retry_after)
    if type(error) is ChoirError and status >= SERVER_ERROR:
        return OutcomeUnknown(f"control answered {status}: {error.message}")
    return error


def is_session_over(error: BaseException) -> bool:
    """Return whether an error, or one inside its group, means that control ended this session."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_session_over(inner) for inner in error.exceptions)
    return isinstance(error, Fenced | Unauthorized)


async def send_hello(
    control: ControlClient, request: HelloRequest, patience_s: float
) -> HelloResponse:
    """Send INIT_HELLO and return the response; retries, because control may still be starting.

    Raises StartupError if control does not answer within `patience_s` or rejects the request, and Fenced or
    Unauthorized if the session is no longer ours.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    backoff = Backoff()
    while True:
        try:
            return await control.hello(request)
        except ChoirError as error:
            if is_session_over(error):
                raise
            hopeless = isinstance(error, InvalidRequest)
            if hopeless or asyncio.get_running_loop().time() > deadline:
                raise StartupError(f"Control rejected INIT_HELLO: {error.message}") from error
            await asyncio.sleep(backoff.pause_s())
