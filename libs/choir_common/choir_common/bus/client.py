"""NATS client with typed requests, deadlines and error envelopes.

Each service builds one `Bus` in its `app`, serves its endpoints and calls other services through
`choir_common.clients`. A request carries its remaining time; the server stops working on it when that has
passed. An error is sent as an `ErrorEnvelope` in the body of a `nats.micro` error reply.
"""

from choir_common.bus import nats_import  # noqa: F401  # before nats

# isort: split
import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar
from uuid import uuid4

import nats
import nats.micro
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.micro.request import Request as MicroRequest
from pydantic import ValidationError

from choir_common.bus import subjects
from choir_common.bus.permissions import INBOX, inbox_prefix
from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    ErrorEnvelope,
    InvalidRequest,
    NotRunning,
    Unavailable,
    from_envelope,
)
from choir_common.extras import semantic_version
from choir_common.i18n import _
from choir_common.process import preserve_cancellation
from choir_common.tracing import client_span, server_span
from choir_common.wire.model import WireModel
from choir_common.wire.validation_messages import error_messages

log = structlog.get_logger("choir.bus")

RequestT = TypeVar("RequestT", bound=WireModel)
ResponseT = TypeVar("ResponseT", bound=WireModel)

DEADLINE_HEADER = "Choir-Deadline-Ms"
ERROR_HEADER = "Nats-Service-Error-Code"
CONNECT_TIMEOUT_S = 2
STOP_GRACE_S = 2.0
# Errors of a shutdown after the server has gone; RuntimeError is uvloop's for a closed transport.
_CLOSE_ERRORS = (NatsError, TimeoutError, OSError, RuntimeError)
# Further requests to one endpoint wait in NATS' own pending buffer, which is bounded too.
MAX_CONCURRENT_PER_ENDPOINT = 64


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A served subject: its request model and its handler."""

    subject: str
    request_model: type[WireModel]
    handler: Callable[[Any], Awaitable[WireModel]]
    """A function, like the handler of an HTTP route."""
    owns: Callable[[Any], bool] | None = None
    """Set for requests about something that one replica has: all get them, and only the owner answers."""


class ConnectionWatcher(Protocol):
    """Something that must know at once when the connection to NATS breaks."""

    def note_disconnected(self) -> None:
        """Handle a broken connection: answers to requests in flight may be lost."""


class Bus:
    """One NATS connection, which reconnects without limit and reports when it is down."""

    def __init__(self, url: str, key: str | None, name: str) -> None:
        """Configure a connection as the user with the nkey seed `key`; None: the server needs none.

        `name` is the service's name; the server grants a service only the inboxes of its name.
        """
        self._url = url
        self._key = key
        self._name = name
        self._client = Client()
        self._tasks: asyncio.TaskGroup | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._stack = contextlib.AsyncExitStack()
        self._serving = False
        self._watchers: list[ConnectionWatcher] = []

    async def __aenter__(self) -> Self:
        """Connect. Waits without limit for a server that is still starting; `/readyz` reports it."""
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        await self._client.connect(
            self._url,
            nkeys_seed_str=self._key,
            name=self._name,
            inbox_prefix=inbox_prefix(self._name),
            connect_timeout=CONNECT_TIMEOUT_S,
            reconnect_time_wait=0.1,  # type: ignore[arg-type]  # its own code sleeps on floats
            max_reconnect_attempts=-1,
            allow_reconnect=True,
            ping_interval=5,
            max_outstanding_pings=2,
            # While disconnected a request fails at once; it must not be sent after its deadline.
            pending_size=0,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop serving, allow two seconds for handlers in progress, close."""
        with contextlib.suppress(*_CLOSE_ERRORS):
            await asyncio.wait_for(self._client.drain(), STOP_GRACE_S)
        if self._working:
            _, late = await asyncio.wait(self._working, timeout=STOP_GRACE_S)
            for task in late:
                task.cancel()
        await self._stack.aclose()
        if not self._client.is_closed:
            # A server that stopped first resets the connection during the close.
            with contextlib.suppress(*_CLOSE_ERRORS):
                await asyncio.wait_for(self._client.close(), 2)

    @property
    def connected(self) -> bool:
        """Whether the connection is up."""
        return self._client.is_connected

    @property
    def failure_reason(self) -> str:
        """Why requests to this service fail now; empty if they do not."""
        if not self._client.is_connected:
            return _("NATS is not reachable; it is being reconnected.")
        return "" if self._serving else _("Still starting: no subscription is in place yet.")

    def watch_connection(self, watcher: ConnectionWatcher) -> None:
        """Call `watcher` each time the connection breaks, as long as this bus exists."""
        self._watchers.append(watcher)

    async def request(
        self, subject: str, request: WireModel, response_model: type[ResponseT], timeout_s: float
    ) -> ResponseT:
        """Send `request` and return the typed response.

        Raises the ChoirError that the server raised, Unavailable if no service is subscribed or NATS is
        down, DeadlineExceeded after `timeout_s` seconds.
        """
        if not self._client.is_connected:
            raise Unavailable(
                _("The message bus (NATS) is not reachable; it is being reconnected.")
            )
        with client_span(subject, "nats") as headers, preserve_cancellation():
            message = await self._request(subject, request, timeout_s, headers)
            if message.headers and ERROR_HEADER in message.headers:
                raise _read_error(message)
        return response_model.model_validate_json(message.data)

    async def _request(
        self, subject: str, request: WireModel, timeout_s: float, headers: dict[str, str]
    ) -> Msg:
        try:
            return await self._client.request(
                subject,
                request.model_dump_json().encode(),
                timeout=timeout_s,
                headers={**headers, DEADLINE_HEADER: str(int(timeout_s * 1000))},
            )
        except NoRespondersError as error:
            raise NotRunning(
                _("{service} is not running right now; it may be restarting.").format(
                    service=_service(subject).capitalize()
                )
            ) from error
        except (NatsTimeoutError, TimeoutError) as error:
            raise DeadlineExceeded(
                _(
                    "{service} did not answer within {timeout_s:g} s: it hangs or is very busy."
                ).format(service=_service(subject).capitalize(), timeout_s=timeout_s)
            ) from error
        except NatsError as error:
            raise Unavailable(
                _("The message bus (NATS) failed during a request to {subject}.").format(
                    subject=_service(subject)
                )
            ) from error

    async def ping(self, timeout_s: float) -> None:
        """Return once the NATS server has responded.

        Raises Unavailable if it is down, DeadlineExceeded if it does not respond within `timeout_s`
        seconds.
        """
        if not self._client.is_connected:
            raise Unavailable(
                _("The message bus (NATS) is not reachable; it is being reconnected.")
            )
        try:
            # Not nats-py's flush: after an abandoned ping it drops the connection at the next pong.
            await self._client.request(subjects.unserved(), b"", timeout=timeout_s)
        except NoRespondersError:
            return
        except (NatsTimeoutError, TimeoutError) as error:
            raise DeadlineExceeded(
                _("The message bus (NATS) did not answer within {timeout_s:g} s.").format(
                    timeout_s=timeout_s
                )
            ) from error
        except NatsError as error:
            raise Unavailable(_("The message bus (NATS) failed.")) from error

    async def publish(self, subject: str, event: WireModel) -> None:
        """Publish an event; dropped while NATS is down, because subscribers poll as well."""
        if self._client.is_connected:
            await self._client.publish(subject, event.model_dump_json().encode())

    async def subscribe(self, subject: str, on_event: Callable[[], Awaitable[None]]) -> None:
        """Call `on_event` for every publication on `subject`."""

        async def deliver(_: Msg) -> None:
            await on_event()

        await self._client.subscribe(subject, cb=deliver)

    async def subscribe_events(
        self, subject: str, event: type[RequestT], on_event: Callable[[RequestT], Awaitable[None]]
    ) -> None:
        """Call `on_event` with each publication on `subject`, one after the other."""

        async def deliver(message: Msg) -> None:
            try:
                payload = event.model_validate_json(message.data)
            except ValidationError as error:
                log.warning("invalid event dropped", subject=subject, faults=error.error_count())
                return
            await on_event(payload)

        await self._client.subscribe(subject, cb=deliver)

    @contextlib.asynccontextmanager
    async def serve(self, name: str, version: str, *endpoints: Endpoint) -> AsyncIterator[None]:
        """Serve `endpoints` as the micro service `name` until the block ends.

        All replicas of a service share one queue group, so each request is handled once. Endpoints with
        `owns` have a group for each replica, so that a request reaches its owner.
        """
        own_group = f"{name}-{uuid4().hex}"
        service = await nats.micro.add_service(
            self._client,
            nats.micro.service.ServiceConfig(name=name, version=semantic_version(version)),
        )
        for endpoint in endpoints:
            await service.add_endpoint(
                nats.micro.service.EndpointConfig(
                    name=endpoint.subject.replace(".", "-"),
                    subject=endpoint.subject,
                    queue_group=own_group if endpoint.owns else name,
                    handler=self._handler(endpoint),
                )
            )
        # A request sent after this service reports ready must find the subscription at the server. Flush
        # twice: nats-py's ping overtakes data that waits to be written, so only the second one comes after
        # it.
        await self._client.flush()
        await self._client.flush()
        self._serving = True
        try:
            yield
        finally:
            self._serving = False
            with contextlib.suppress(*_CLOSE_ERRORS):
                await asyncio.wait_for(service.stop(), STOP_GRACE_S)

    def _handler(self, endpoint: Endpoint) -> Callable[[MicroRequest], Awaitable[None]]:
        slots = asyncio.Semaphore(MAX_CONCURRENT_PER_ENDPOINT)

        async def work(request: MicroRequest) -> None:
            try:
                await _handle_request(endpoint, request)
            finally:
                slots.release()

        async def take(request: MicroRequest) -> None:
            # A requester could otherwise have the response sent to a subject that only this service may use.
            if not request._msg.reply.startswith(INBOX):
                log.warning("request without an inbox refused", subject=endpoint.subject)
                return
            # nats-py runs the callbacks of a subscription one after the other, so start a task at once.
            await slots.acquire()
            if self._tasks is None:
                raise Unavailable(_("The bus connection is closed."))
            task = self._tasks.create_task(work(request))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

        return take

    async def _on_error(self, error: Exception) -> None:
        log.warning("NATS client error", error=repr(error))

    async def _on_disconnected(self) -> None:
        for watcher in self._watchers:
            watcher.note_disconnected()


def _service(subject: str) -> str:
    """Return the service name in `choir.<service>...`: error messages name services, not subjects."""
    return subject.split(".")[1] if subject.startswith("choir.") else _("the service")


async def _handle_request(endpoint: Endpoint, request: MicroRequest) -> None:
    headers = request.headers or {}
    budget_s = int(headers.get(DEADLINE_HEADER, "30000")) / 1000
    try:
        async with asyncio.timeout(budget_s):
            with server_span(endpoint.subject, "nats", headers):
                body = endpoint.request_model.model_validate_json(request.data)
                if endpoint.owns is not None and not endpoint.owns(body):
                    return
                reply = await endpoint.handler(body)
        await request.respond(reply.model_dump_json().encode())
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "body"))
        await _respond_error(request, InvalidRequest(f"{endpoint.subject}: {faults}"))
    except ChoirError as error:
        await _respond_error(request, error)
    except TimeoutError:
        await _respond_error(request, DeadlineExceeded())
    except Exception:  # outermost handler: the caller gets an envelope, the log the trace
        log.exception("endpoint failed", subject=endpoint.subject)
        await _respond_error(request, ChoirError())


async def _respond_error(request: MicroRequest, error: ChoirError) -> None:
    envelope = error.envelope()
    with contextlib.suppress(NatsError):
        await request.respond_error(
            str(error.status), envelope.code, envelope.model_dump_json().encode()
        )


def _read_error(message: Msg) -> ChoirError:
    try:
        return from_envelope(ErrorEnvelope.model_validate_json(message.data))
    except ValidationError:
        return ChoirError(_("The other service failed without error details."))
