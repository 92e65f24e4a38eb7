"""A small control for the agent's tests: the eight verbs and the signals over a real Unix socket.

It keeps the real rules of the log (compare-and-set on the head, epochs, resent patches without effect)
in memory, and can misbehave on request: withhold acknowledgements, lose answers, fence.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.errors import (
    ChoirError,
    Conflict,
    Fenced,
    InvalidRequest,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from choir_common.eventlog.chain import LogHead, find_break, head_of
from choir_common.http.listen import bind_unix, serve
from choir_common.http.response_parser import ServerSentEvent
from choir_common.http.responses import (
    KEEPALIVE,
    event_stream_response,
    problem_response,
    render_choir_error,
    render_event,
)
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import AgentSettings, Budgets, ModelConfig
from choir_common.wire.events import Event, EventPayload, Reply, UserMessageStarted, parse_payload
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.policy import AgentPolicy
from choir_common.wire.rpc import (
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
    ReplyDraft,
    ResourceBindings,
    SecretsRequest,
    SecretsResponse,
    StatusRequest,
    TerminateRequest,
)
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import (
    MessageSender,
    ShutdownSignal,
    Signal,
    SignalBody,
    UserMessageSignal,
)
from tests.support.home import make_short_directory

AGENT = "main"
SESSION = "ses_test"
DM = "console"
TOKEN = "lease-token-of-the-test"

HostTool = Callable[[HostToolRequest], HostToolResponse]


class SameAnswer(dict[str, ApprovalResponse]):
    """A person who answers every question alike, at once."""

    def __init__(self, status: Literal["approved", "rejected"]) -> None:
        super().__init__()
        self._status = status

    def setdefault(self, key: str, default: ApprovalResponse) -> ApprovalResponse:  # type: ignore[override]
        """Return the answer to a new question."""
        return super().setdefault(key, default.model_copy(update={"status": self._status}))


def refuse_host_tools(request: HostToolRequest) -> HostToolResponse:
    """Answer a host tool that the test did not expect."""
    output: JsonObject = {"code": "not_found", "message": f"no host tool {request.tool_name}"}
    return HostToolResponse(call_id=request.call_id, status="error", output=output)


class ControlStandIn:
    """One session's control, in memory."""

    def __init__(self, model_endpoint: str, root: Path) -> None:
        self.root = root
        self.workspace = root / "ws"
        self.choir_dir = root / "choir"
        for directory in (self.workspace, self.choir_dir):
            directory.mkdir()
        self.socket = root / "s" / "choir.sock"
        self.model_endpoint = model_endpoint
        self.budgets = Budgets()
        self.rate_limit_retry_ms = 20
        self.model_timeout_ms = 60_000
        self.secret: str | None = None
        self.secrets: dict[str, str] = {}
        self.bound: dict[str, object] = {}
        """Further settings: what the agent is bound to."""
        self.config_version = 1
        self.epoch = 1
        self.events: list[Event] = []
        self.continues: str | None = None
        self.handed_down: JsonObject | None = None
        """What the session it continues had summed up."""
        self.acknowledging = asyncio.Event()
        self.acknowledging.set()
        self.lose_answers = 0
        """How many heartbeats are stored and then answered with a 503."""
        self.refuse_next = 0
        """How many heartbeats are answered with a 503 and not stored."""
        self.fenced = False
        self.host_tool: HostTool = refuse_host_tools
        self.host_calls: list[HostToolRequest] = []
        self.approvals: dict[str, ApprovalResponse] = {}
        self.approval_requests: dict[str, ApprovalRequest] = {}
        self.most_undecided = 20
        self.statuses: list[StatusRequest] = []
        self.drafts: list[ReplyDraft] = []
        self.draft_lanes: list[str] = []
        """The lane of each draft."""
        self.accepting_drafts = asyncio.Event()
        self.accepting_drafts.set()
        self.heartbeats: list[HeartbeatRequest] = []
        self.hellos: list[HelloRequest] = []
        self.terminated: str | None = None
        self.signals: list[Signal] = []
        self._news = asyncio.Condition()

    # what a test does

    def boot(self) -> AgentStartParameters:
        """Return what the runtime would hand the agent."""
        return AgentStartParameters(
            agent_id=AGENT,
            session_id=SESSION,
            epoch=self.epoch,
            lease_token=TOKEN,
            endpoint=f"unix://{self.socket}",
            workspace=str(self.workspace),
            choir_dir=str(self.choir_dir),
            image_version="test",
        )

    async def tell(self, body: SignalBody) -> None:
        """Queue a signal."""
        self.signals.append(Signal(seq=len(self.signals) + 1, body=body))
        await self._ring()

    async def say(
        self,
        text: str,
        inbox_id: str = "inb_1",
        sent_at: datetime | None = None,
        attachments: tuple[ReceivedFile, ...] = (),
        wake_up: WakeUp | None = None,
        dm: str = DM,
        sender: MessageSender | None = None,
    ) -> None:
        """Queue a user's message, or with `wake_up` the words of a schedule."""
        message = UserMessageSignal(
            inbox_id=inbox_id,
            dm=dm,
            text=text,
            sent_at=sent_at,
            attachments=attachments,
            wake_up=wake_up,
            sender=sender,
        )
        await self.tell(message)

    def payloads(self) -> list[EventPayload]:
        """Return the durable log's payloads."""
        return [parse_payload(event) for event in self.events]

    def types(self) -> list[str]:
        """Return the durable log's event types."""
        return [event.type for event in self.events]

    def replies(self) -> list[Reply]:
        """Return what reached the user."""
        return [payload for payload in self.payloads() if isinstance(payload, Reply)]

    async def until(self, holds: Callable[[], bool], timeout_s: float = 200.0) -> None:
        """Wait until something holds; it is looked at whenever anything reached us."""
        async with asyncio.timeout(timeout_s), self._news:
            await self._news.wait_for(holds)

    async def replied(self, count: int = 1) -> list[Reply]:
        """Wait for the closing replies of `count` messages and return all replies."""
        await self.until(lambda: sum(r.answers is not None for r in self.replies()) >= count)
        return self.replies()

    async def fence(self) -> None:
        """Give the session to another epoch."""
        self.fenced = True
        await self._ring()

    def crash_and_cut(self, kept: int) -> None:
        """Forget all events after the first `kept`, and raise the epoch, as after a crash."""
        del self.events[kept:]
        self.epoch += 1

    def next_epoch(self) -> None:
        """Let the session go on after a stop, which is done."""
        self.epoch += 1
        self.signals = [one for one in self.signals if not isinstance(one.body, ShutdownSignal)]

    # the doors

    def app(self) -> Starlette:
        """Return the ASGI app."""
        return Starlette(
            routes=[
                Route("/rpc/{verb}", self._rpc, methods=["POST"]),
                Route("/events", self._follow),
            ],
            exception_handlers={ChoirError: render_choir_error},
        )

    async def _rpc(self, request: Request) -> Response:
        self._authorize(request)
        body = await request.body()
        verb = request.path_params["verb"]
        try:
            answer = await self._dispatch(verb, body)
        except ChoirError as error:
            return problem_response(error)
        await self._ring()
        return Response(answer.model_dump_json(), media_type="application/json")

    def _authorize(self, request: Request) -> None:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Unauthorized()
        if request.headers.get("x-choir-session-id") != SESSION:
            raise Unauthorized("another session")
        if not request.headers.get("x-choir-request-id"):
            raise InvalidRequest("X-Choir-Request-Id is needed.")
        if self.fenced:
            raise Fenced()

    async def _dispatch(self, verb: str, body: bytes) -> WireModel:
        match verb:
            case "INIT_HELLO":
                return self._hello(HelloRequest.model_validate_json(body))
            case "GET_SECRETS":
                names = SecretsRequest.model_validate_json(body).resources
                return SecretsResponse(
                    secrets={name: self.secrets[name] for name in names if name in self.secrets}
                )
            case "HEARTBEAT":
                return await self._heartbeat(HeartbeatRequest.model_validate_json(body))
            case "REQUEST_APPROVAL":
                asked = ApprovalRequest.model_validate_json(body)
                earlier = self.approval_requests.get(asked.call_id)
                if earlier is not None and earlier.payload != asked.payload:
                    raise Conflict("The call requested something else before.")
                self.approval_requests[asked.call_id] = asked
                undecided = [one for one in self.approvals.values() if one.status == "pending"]
                is_new = asked.call_id not in self.approvals
                if is_new and len(undecided) >= self.most_undecided:
                    raise RateLimited("Too many questions wait for a human already.")
                pending = ApprovalResponse(approval_id=f"apr_{asked.call_id}", status="pending")
                return self.approvals.setdefault(asked.call_id, pending)
            case "REPORT_STATUS":
                report = StatusRequest.model_validate_json(body)
                if report.draft is None:
                    self.statuses.append(report)
                else:
                    self.drafts.append(report.draft)
                    self.draft_lanes.append(report.lane)
                    await self.accepting_drafts.wait()
                return Ack()
            case "TERMINATE_SELF":
                self.terminated = TerminateRequest.model_validate_json(body).reason
                return Ack()
            case "FETCH_DYNAMIC_CONFIG":
                known = ConfigRequest.model_validate_json(body).current_config_version
                newer = known != self.config_version
                return ConfigResponse(
                    config_version=self.config_version, config=self.settings() if newer else None
                )
            case "EXECUTE_HOST_TOOL":
                call = HostToolRequest.model_validate_json(body)
                self.host_calls.append(call)
                return self.host_tool(call)
        raise InvalidRequest(f"no verb {verb}")

    def settings(self) -> AgentSettings:
        """Return the settings as they stand."""
        settings = AgentSettings(
            model_name="default",
            model=ModelConfig(
                model="rehearsal",
                endpoint=self.model_endpoint,
                # without it the agent would ask the endpoint
                context_window=128_000,
                secret=self.secret,
                timeout_ms=self.model_timeout_ms,
            ),
            budgets=self.budgets,
            heartbeat_interval_ms=200,
            rate_limit_retry_ms=self.rate_limit_retry_ms,
            event_window=50,
            # a test about something else is not asked about hosts
            policy=AgentPolicy(known_hosts=("*",)),
        )
        return settings.model_copy(update=self.bound)

    def _head(self) -> LogHead:
        return head_of(self.events[-1]) if self.events else LogHead()

    def _tail(self) -> tuple[Event, ...]:
        newest = next((event for event in reversed(self.events) if event.type == "snapshot"), None)
        first = int(str(newest.payload["window_from"])) if newest is not None else 1
        return tuple(event for event in self.events if event.rev >= first)

    def _hello(self, request: HelloRequest) -> HelloResponse:
        if request.epoch != self.epoch:
            raise Fenced()
        self.hellos.append(request)
        head = self._head()
        return HelloResponse(
            status="resumed" if self.events else "fresh",
            epoch=self.epoch,
            continues=self.continues,
            resource_bindings=ResourceBindings(workspace="main", llm="default", dm=DM),
            head_rev=head.rev,
            head_hash=head.hash,
            snapshot=self.handed_down,
            tail_events=self._tail(),
            config_version=self.config_version,
            config=self.settings(),
        )

    async def _heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        self.heartbeats.append(request)
        await self._ring()
        await self.acknowledging.wait()
        if self.fenced or request.epoch != self.epoch:
            raise Fenced()
        if self.refuse_next:
            self.refuse_next -= 1
            raise Unavailable()
        self._store(request)
        if self.lose_answers:
            self.lose_answers -= 1
            await self._ring()
            raise Unavailable("stored, but you do not know")
        return HeartbeatResponse(ack_rev=request.new_rev, config_version_latest=self.config_version)

    def _store(self, request: HeartbeatRequest) -> None:
        base = LogHead(request.base_rev, request.hash_prev)
        broken = find_break(request.patches, base)
        if broken or request.new_rev != request.base_rev + len(request.patches):
            raise InvalidRequest(f"the patches do not follow their base: {broken}")
        head = self._head()
        if head.rev < base.rev:
            raise Fenced("events are missing")
        known = {base.rev: base.hash} | {patch.rev: patch.hash for patch in request.patches}
        if request.new_rev >= head.rev and known.get(head.rev) != head.hash:
            raise Fenced("a fork")
        for patch in request.patches:
            if patch.rev > head.rev:
                parse_payload(patch)
                self.events.append(patch)

    async def _follow(self, request: Request) -> Response:
        self._authorize(request)
        return event_stream_response(
            self._signals_after(int(request.headers.get("last-event-id", "0")))
        )

    async def _signals_after(self, seen: int) -> AsyncIterator[bytes]:
        yield KEEPALIVE
        fresh = seen == 0
        while not self.fenced:
            for signal in self.signals[seen:]:
                seen = signal.seq
                if not (fresh and self._done(signal)):
                    body = signal.body.model_dump_json()
                    yield render_event(ServerSentEvent(str(signal.seq), signal.body.kind, body))
            fresh = False
            async with self._news:
                await self._news.wait_for(
                    lambda last=seen: self.fenced or len(self.signals) > last  # type: ignore[misc]
                )

    def _done(self, signal: Signal) -> bool:
        taken = {p.inbox_id for p in self.payloads() if isinstance(p, UserMessageStarted)}
        return isinstance(signal.body, UserMessageSignal) and signal.body.inbox_id in taken

    async def _ring(self) -> None:
        async with self._news:
            self._news.notify_all()


@contextlib.asynccontextmanager
async def run_control(model_endpoint: str) -> AsyncIterator[ControlStandIn]:
    """Serve a stand-in on a socket of its own while the block runs."""
    # short: a socket path takes 107 bytes
    root = make_short_directory("choir-a-")
    control = ControlStandIn(model_endpoint, root)
    stop = asyncio.Event()
    server = asyncio.create_task(serve(control.app(), [bind_unix(control.socket)], stop))
    try:
        yield control
    finally:
        control.acknowledging.set()
        control.accepting_drafts.set()
        await control.fence()
        stop.set()
        await server
        shutil.rmtree(root, ignore_errors=True)
