"""Typed client for control's `/v1` API, one method per operation. Used by the commands and the chat.

Every failure is raised as an error of `choir_common.errors`, with a message for the person at the terminal.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Literal, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ValidationError

from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
)
from choir_common.http.client import await_unless_hung, make_client
from choir_common.http.response_parser import parse_events, read_problem
from choir_common.wire.audit import AnchorList
from choir_common.wire.erasure import PersonErasurePreview
from choir_common.wire.events import Event
from choir_common.wire.grants import GrantView
from choir_common.wire.model_check import ModelTestResult
from choir_common.wire.money import CostReport
from choir_common.wire.operations import (
    AgentModelAndVoice,
    ModelView,
    OperationView,
    SetModel,
    SetVoice,
    VoiceView,
    WorkspaceView,
)
from choir_common.wire.operator import (
    AgentView,
    ApprovalView,
    CancelWork,
    CommandView,
    CompactMemory,
    Decision,
    DmView,
    EventPage,
    InjectText,
    LogVerification,
    Page,
    SessionView,
    SignalQueued,
    StartAgent,
    SystemStatus,
)
from choir_common.wire.policy import AllowedHost, ExplainCall, ExplainedCall, PolicyRule
from choir_common.wire.schedules import ScheduleView
from choirctl.api.target import Target

M = TypeVar("M", bound=BaseModel)
ApprovalVerdict = Literal["approve", "reject"]
PAGE_SIZE = 200
PROXY_UNAVAILABLE = (502, 503, 504)  # a reverse proxy returns these without a problem document
STREAM_READ_TIMEOUT_S = 40.0  # a stream sends a keepalive every 15 s
RECONNECT_TIMEOUT_S = 60.0  # longer than a restart of control takes
READ_TIMEOUT_S = 15.0
VERIFY_TIMEOUT_S = 300.0  # a log of a million events takes a while to hash


class ControlClient:
    """Client of one Choir's operator API; created by `connect`."""

    def __init__(self, client: httpx2.AsyncClient, place: Target) -> None:
        self.client = client
        self._place = place

    async def status(self) -> SystemStatus:
        """Return the status of the whole system."""
        return await self._get("/v1/status", SystemStatus)

    async def agents(self) -> list[AgentView]:
        """Return all agents."""
        return [view async for view in self._pages("/v1/agents", Page[AgentView], {})]

    async def agent(self, agent_id: str) -> AgentView:
        """Return one agent. Raises NotFound if there is no such agent."""
        return await self._get(f"/v1/agents/{agent_id}", AgentView)

    async def start_agent(self, agent_id: str, request: StartAgent, timeout_s: float) -> AgentView:
        """Start an agent. Raises Conflict if it runs, or if another agent has one of its resources."""
        return await self._post(f"/v1/agents/{agent_id}/start", request, AgentView, timeout_s)

    async def stop_agent(self, agent_id: str, timeout_s: float) -> AgentView:
        """Stop an agent gracefully. Raises Conflict if it does not run."""
        return await self._post(f"/v1/agents/{agent_id}/stop", None, AgentView, timeout_s)

    async def restart_agent(self, agent_id: str, timeout_s: float) -> AgentView:
        """Stop an agent and start it with the same resources. Raises Conflict if it does not run."""
        return await self._post(f"/v1/agents/{agent_id}/restart", None, AgentView, timeout_s)

    async def inject(self, agent_id: str, text: str, dm: str | None = None) -> SignalQueued:
        """Send an agent further instructions for its next safe point. Raises Conflict if it does not run."""
        return await self._post(
            f"/v1/agents/{agent_id}/inject", InjectText(text=text, dm=dm), SignalQueued
        )

    async def cancel(self, agent_id: str, job: str | None, dm: str | None = None) -> SignalQueued:
        """Cancel a core job, or the turn if `job` is None. Raises Conflict if the agent does not run."""
        return await self._post(
            f"/v1/agents/{agent_id}/cancel", CancelWork(job=job, dm=dm), SignalQueued
        )

    async def compact(self, agent_id: str, request: CompactMemory) -> SignalQueued:
        """Compact the working memory of a lane. Raises Conflict if the session does not run."""
        return await self._post(f"/v1/agents/{agent_id}/compact", request, SignalQueued)

    async def models(self) -> list[ModelView]:
        """Return the language models and the text-to-speech providers."""
        return [view async for view in self._pages("/v1/models", Page[ModelView], {})]

    async def test_model(self, name: str, timeout_s: float) -> ModelTestResult:
        """Call a model once. Raises NotFound, and Conflict while another test of it is running."""
        path = f"/v1/models/{quote(name, safe='')}/test"
        return await self._post(path, None, ModelTestResult, timeout_s)

    async def voices(self) -> list[VoiceView]:
        """Return the voice profiles."""
        return [view async for view in self._pages("/v1/voices", Page[VoiceView], {})]

    async def agent_choices(self, agent_id: str) -> AgentModelAndVoice:
        """Return the model and the voice of an agent. Raises NotFound."""
        return await self._get(f"/v1/agents/{agent_id}/model", AgentModelAndVoice)

    async def set_model(self, agent_id: str, llm: str) -> AgentModelAndVoice:
        """Switch a running agent to another model. Raises Conflict if it does not run."""
        return await self._put(
            f"/v1/agents/{agent_id}/model", SetModel(llm=llm), AgentModelAndVoice
        )

    async def set_voice(self, agent_id: str, voice: str) -> AgentModelAndVoice:
        """Switch a running agent to another voice. Raises Conflict if it does not run."""
        body = SetVoice(voice_profile=voice)
        return await self._put(f"/v1/agents/{agent_id}/voice", body, AgentModelAndVoice)

    async def workspaces(self) -> list[WorkspaceView]:
        """Return the workspaces, with the agent that has each and how full it is."""
        return [view async for view in self._pages("/v1/workspaces", Page[WorkspaceView], {})]

    async def operations(self, limit: int) -> list[OperationView]:
        """Return the newest operations."""
        params = {"limit": str(limit)}
        return (await self._get("/v1/operations", Page[OperationView], params)).items

    async def operation(self, operation_id: str) -> OperationView:
        """Return one operation. Raises NotFound."""
        path = f"/v1/operations/{quote(operation_id, safe='')}"
        return await self._get(path, OperationView)

    async def commands(self, dm: str) -> list[CommandView]:
        """Return the commands of a conversation. Raises NotFound if there is no such conversation."""
        params = {"dm": dm}
        return [view async for view in self._pages("/v1/commands", Page[CommandView], params)]

    async def dms(self) -> list[DmView]:
        """Return the configured conversations, with the agent bound to each."""
        return [view async for view in self._pages("/v1/dms", Page[DmView], {})]

    async def session(self, session_id: str) -> SessionView:
        """Return one session. Raises NotFound if there is no such session."""
        return await self._get(f"/v1/sessions/{session_id}", SessionView)

    async def cost(self, params: Mapping[str, str]) -> CostReport:
        """Return a report of costs."""
        return await self._get("/v1/cost", CostReport, params)

    async def policy(self) -> list[PolicyRule]:
        """Return the rules on tool calls in the order in which they are tried."""
        return (await self._get("/v1/policy", Page[PolicyRule])).items

    async def grants(self) -> list[GrantView]:
        """Return the yeses that cover later calls, oldest first."""
        return (await self._get("/v1/policy/grants", Page[GrantView])).items

    async def revoke_grant(self, grant_id: str) -> GrantView:
        """Revoke a grant. Raises NotFound if it is not in force."""
        return await self._delete(f"/v1/policy/grants/{quote(grant_id, safe='')}", GrantView)

    async def allowed_hosts(self, agent_id: str) -> list[AllowedHost]:
        """Return the hosts that people have named to an agent or allowed.

        Raises NotFound if there is no such agent.
        """
        return (await self._get(f"/v1/agents/{agent_id}/hosts", Page[AllowedHost])).items

    async def explain_call(self, agent_id: str, call: ExplainCall) -> ExplainedCall:
        """Return what the policy decides on a call. Raises NotFound if there is no such agent."""
        return await self._post(f"/v1/agents/{agent_id}/policy", call, ExplainedCall)

    async def approvals(self) -> list[ApprovalView]:
        """Return the newest approval requests, pending ones first."""
        return (await self._get("/v1/approvals", Page[ApprovalView], {"limit": "500"})).items

    async def approval(self, approval_id: str) -> ApprovalView:
        """Return one approval request. Raises NotFound."""
        return await self._get(f"/v1/approvals/{quote(approval_id, safe='')}", ApprovalView)

    async def decide_approval(
        self, approval_id: str, verdict: ApprovalVerdict, decision: Decision
    ) -> ApprovalView:
        """Decide a request. Raises Conflict if it was decided before, or if its digest is another one."""
        path = f"/v1/approvals/{quote(approval_id, safe='')}/{verdict}"
        return await self._post(path, decision, ApprovalView)

    async def roll_back(self, approval_id: str) -> ApprovalView:
        """Roll back an applied request. Raises Conflict if it is not applied, or if later changes need it."""
        path = f"/v1/approvals/{quote(approval_id, safe='')}/rollback"
        return await self._post(path, None, ApprovalView, timeout_s=120)

    async def sessions(self, agent_id: str | None, limit: int) -> list[SessionView]:
        """Return up to `limit` sessions, newest first."""
        params = {"agent_id": agent_id} if agent_id else {}
        views: list[SessionView] = []
        async for view in self._pages("/v1/sessions", Page[SessionView], params):
            views.append(view)
            if len(views) >= limit:
                break
        return views

    async def schedules(self, agent_id: str | None) -> list[ScheduleView]:
        """Return the schedules of an agent or of all, oldest first."""
        params = {"limit": str(PAGE_SIZE), **({"agent": agent_id} if agent_id else {})}
        return [view async for view in self._pages("/v1/schedules", Page[ScheduleView], params)]

    async def events(self, session_id: str, after: int) -> EventPage:
        """Return the events that follow revision `after`."""
        params = {"after": str(after), "limit": str(PAGE_SIZE)}
        return await self._get(f"/v1/sessions/{session_id}/events", EventPage, params)

    async def follow_events(self, session_id: str, after: int) -> AsyncGenerator[Event]:
        """Yield the events after revision `after` as they are appended, until the session ends.

        A broken stream is resumed after the last event received. Raises Unavailable if that fails for a
        minute.
        """
        cut_at: float | None = None
        first = after
        while cut_at is None or time.monotonic() - cut_at < RECONNECT_TIMEOUT_S:
            try:
                async with contextlib.aclosing(self._stream_events(session_id, after)) as news:
                    async for event in news:
                        if event is None:
                            return
                        after, cut_at = event.rev, None
                        yield event
            except (Unavailable, OutcomeUnknown, DeadlineExceeded):
                if cut_at is None and after == first:
                    raise  # no stream was ever open, so there is nothing to resume
            # a stream that ends without an `end` event counts as a lost connection, too
            cut_at = cut_at or time.monotonic()
            await asyncio.sleep(1)
        raise Unavailable(
            f"The connection to {self._place.display_address} was lost at revision {after} of "
            f"{session_id}. Continue later with `choirctl session events {session_id} --follow "
            f"--after {after}`."
        )

    async def _stream_events(self, session_id: str, after: int) -> AsyncGenerator[Event | None]:
        """Yield the events of one stream; None marks the end of the session."""
        path = f"/v1/sessions/{session_id}/events/stream"
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx2.Timeout(STREAM_READ_TIMEOUT_S, connect=5.0)
        with convert_transport_errors(self._place):
            async with self.client.stream("GET", path, headers=headers, timeout=timeout) as answer:
                if answer.is_error:
                    self.raise_for_status(answer.status_code, await answer.aread())
                async for event in parse_events(answer.aiter_bytes()):
                    yield None if event.event == "end" else Event.model_validate_json(event.data)

    async def verify(self, session_id: str) -> LogVerification:
        """Ask control to check a session's whole log."""
        path = f"/v1/sessions/{session_id}/verify"
        return await self._get(path, LogVerification, timeout_s=VERIFY_TIMEOUT_S)

    async def preview_erasure(self, path: str) -> PersonErasurePreview | None:
        """Return what an erasure of a DM or a person would remove; None if there is none of this name."""
        try:
            return await self._get(path, PersonErasurePreview)
        except NotFound:
            return None

    async def anchors(self) -> AnchorList:
        """Return the anchors of the logs, checked by control."""
        return await self._get("/v1/audit/anchors", AnchorList, timeout_s=VERIFY_TIMEOUT_S)

    async def rotate_audit_key(self) -> AnchorList:
        """Make a new key that signs the logs."""
        return await self._post("/v1/audit/rotate", None, AnchorList)

    async def session_ids(self) -> list[str]:
        """Return the ids of all sessions, newest first."""
        pages = self._pages("/v1/sessions", Page[SessionView], {})
        return [view.session_id async for view in pages]

    async def _pages(
        self, path: str, shape: type[Page[M]], params: Mapping[str, str]
    ) -> AsyncIterator[M]:
        cursor: str | None = None
        while True:
            page = await self._get(
                path, shape, {**params, **({"cursor": cursor} if cursor else {})}
            )
            for item in page.items:
                yield item
            if page.next is None:
                return
            cursor = page.next

    async def _get(
        self,
        path: str,
        shape: type[M],
        params: Mapping[str, str] | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> M:
        return parse_response(
            await self.send("GET", path, params=params, timeout_s=timeout_s), shape
        )

    async def _post(
        self, path: str, body: BaseModel | None, shape: type[M], timeout_s: float = 30.0
    ) -> M:
        return parse_response(await self.send("POST", path, body=body, timeout_s=timeout_s), shape)

    async def _put(self, path: str, body: BaseModel, shape: type[M]) -> M:
        return parse_response(await self.send("PUT", path, body=body), shape)

    async def _delete(self, path: str, shape: type[M]) -> M:
        return parse_response(await self.send("DELETE", path), shape)

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Mapping[str, str | list[str]] | None = None,
        timeout_s: float = 30.0,
    ) -> httpx2.Response:
        """Send a request and return the response.

        Raises the error that an error response contains, Unavailable if nothing answers, DeadlineExceeded
        after `timeout_s`, OutcomeUnknown if the connection breaks during the request.
        """
        content = None if body is None else body.model_dump_json(exclude_none=True)
        headers = {} if body is None else {"Content-Type": "application/json"}
        with convert_transport_errors(self._place):
            response = await await_unless_hung(
                self.client,
                self.client.request(
                    method,
                    path,
                    params=dict(params or {}),
                    content=content,
                    headers=headers,
                    timeout=httpx2.Timeout(timeout_s, connect=5.0),
                ),
            )
        self.raise_for_status(response.status_code, response.content)
        return response

    async def open_stream(
        self, path: str, headers: Mapping[str, str], timeout: httpx2.Timeout
    ) -> httpx2.Response:
        """Open an event stream, which the caller must close. Raises the errors of `send`."""
        request = self.client.build_request("GET", path, headers=dict(headers), timeout=timeout)
        with convert_transport_errors(self._place):
            answer = await await_unless_hung(self.client, self.client.send(request, stream=True))
            if answer.is_error:
                try:
                    self.raise_for_status(answer.status_code, await answer.aread())
                finally:
                    await answer.aclose()
        return answer

    async def upload(
        self,
        path: str,
        body: AsyncIterator[bytes],
        *,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        timeout: httpx2.Timeout,
    ) -> httpx2.Response:
        """Send a PUT request with a streamed body. Raises the errors of `send`."""
        with convert_transport_errors(self._place):
            response = await self.client.put(
                path, content=body, params=dict(params), headers=dict(headers), timeout=timeout
            )
        self.raise_for_status(response.status_code, response.content)
        return response

    async def download(self, path: str, timeout: httpx2.Timeout) -> AsyncGenerator[bytes]:
        """Yield the chunks of a large response body. Raises the errors of `send`."""
        with convert_transport_errors(self._place):
            async with self.client.stream("GET", path, timeout=timeout) as answer:
                if answer.is_error:
                    self.raise_for_status(answer.status_code, await answer.aread())
                async for piece in answer.aiter_bytes():
                    yield piece

    def raise_for_status(self, status: int, body: bytes) -> None:
        """Raise the error that an error response contains; do nothing for any other status."""
        if status < 400:
            return
        error = read_problem(status, body)
        if isinstance(error, Unauthorized):
            raise Unauthorized(
                f"{self._place.display_address} refuses the operator token: {error.message} Set CHOIR_TOKEN "
                f"to "
                f"the value of `operator-token` in the secrets.json of that Choir."
            )
        # a proxy's error page has no problem document, so `read_problem` returns a plain ChoirError
        if type(error) is ChoirError and status in PROXY_UNAVAILABLE:
            raise Unavailable(
                f"{self._place.display_address} returned HTTP {status}: a part of it is down."
            )
        raise error


@contextlib.asynccontextmanager
async def connect(place: Target) -> AsyncIterator[ControlClient]:
    """Open a client for the API at `target`; sends nothing yet.

    Raises InvalidRequest for an invalid address, Unavailable if the local socket does not exist.
    """
    if place.url is None and not place.socket.exists():
        raise Unavailable(
            f"Choir does not run here: there is no socket at {place.socket}. Start it with "
            "`choirctl up`; for a Choir elsewhere, name its address with --url or CHOIR_URL, or its "
            "state directory with --home or CHOIR_HOME."
        )
    if place.url is not None and not place.url.startswith(("http://", "https://")):
        raise InvalidRequest(f"`{place.url}` is not a valid address. Write http://host:port.")
    token = place.token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with make_client(
        place.endpoint, headers=headers, ca_pem=place.ca_certificates()
    ) as client:
        yield ControlClient(client, place)


@contextlib.contextmanager
def convert_transport_errors(place: Target) -> Iterator[None]:
    """Convert transport errors of httpx into errors with a message for the user."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise Unavailable(
            f"Nothing answers at {place.display_address}: {error}. Start Choir with `choirctl up`, or see "
            "`choirctl doctor`."
        ) from error
    except httpx2.TimeoutException as error:
        raise DeadlineExceeded(
            f"{place.display_address} is there, but did not answer in time: choird is stuck or very busy. "
            f"One that "
            "hangs is replaced within a minute. See `choirctl logs choird` and `choirctl doctor`."
        ) from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        raise InvalidRequest(
            f"`{place.display_address}` is no address of a Choir: {error}."
        ) from error
    except httpx2.HTTPError as error:
        raise OutcomeUnknown(
            f"The connection to {place.display_address} broke ({error or type(error).__name__}). See "
            "`choirctl status` before you try again."
        ) from error


def parse_response(response: httpx2.Response, model: type[M]) -> M:
    """Parse a response as `shape`. Raises ChoirError if this version of choirctl does not know its
    form."""
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        raise ChoirError(
            f"{response.request.url} returned a response that this choirctl cannot read "
            f"({error.error_count()} fields do not match {model.__name__}). Compare the versions "
            "with `choirctl version` and `choirctl status`."
        ) from error
