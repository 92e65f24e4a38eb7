"""Factories of the two HTTP applications: the host endpoint, and the agents' sockets.

The agents' application contains no operator API, so an agent's socket cannot reach it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI, Response

from choir_common.errors import StartupError, Unavailable
from choir_common.http.health_app import ReadinessCheck
from choir_common.http.listen import bind_unix, serve
from choir_common.http.middleware import LargeBodyRoute
from choir_common.http.openapi import (
    GATEWAY_TOKEN,
    HOOK_SIGNATURE,
    LEASE_TOKEN,
    OPERATOR_TOKEN,
)
from choir_common.http.routers import ServiceRouter
from choir_common.http.service_app import make_service_app
from choir_common.metrics import CONTENT_TYPE, Metrics
from choir_control.api.event_streams import make_signal_router
from choir_control.api.hooks import HOOK_BODIES
from choir_control.api.mcp.endpoint import BODIES as MCP_BODIES
from choir_control.api.mcp.endpoint import McpEndpoint
from choir_control.api.openai.routes import BODIES as OPENAI_BODIES
from choir_control.api.openai.routes import OpenAIEndpoints
from choir_control.api.operator.authentication import (
    ConversationAuthentication,
    FileAuthentication,
    MetricsAuthentication,
    OperatorAuthentication,
)
from choir_control.api.operator.collection_files import DOCUMENT_BODIES
from choir_control.api.operator.console import LARGE_BODIES, GatewayClients, console_routes
from choir_control.api.operator.database_timeout import DatabaseTimeoutMiddleware
from choir_control.api.operator.private_answers import PrivateAnswersMiddleware
from choir_control.api.readiness import CompleteReadiness, ReadinessChecks
from choir_control.api.rpc.app import RpcApp, make_rpc_router
from choir_control.api.rpc.rate_limits import HEARTBEAT_LIMIT, SessionRateLimiter
from choir_control.api.rpc.verbs import AgentApi
from choir_control.api.web_page import web_page_routes
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.inbox.console import ConsoleInbox
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.metrics.meter import ControlMetrics
from choir_control.log.signals.streams import SignalStreams
from choir_control.settings import ControlSettings


class AgentEndpoints:
    """The endpoints that an agent may call: the verbs and the signal stream. Both apps have them."""

    def __init__(
        self,
        *,
        leases: LeaseAuthenticator,
        api: AgentApi,
        signal_streams: SignalStreams,
        metrics: Metrics,
        limits: SessionRateLimiter,
    ) -> None:
        self.metrics = metrics
        self._leases = leases
        self._limits = limits
        self._verbs = api.table()
        # Built once: FastAPI takes a millisecond to prepare a route.
        self._routers = (
            make_rpc_router(self._verbs),
            make_signal_router(leases, signal_streams, limits),
        )

    def add_to(self, app: FastAPI) -> None:
        """Add the endpoints to an application."""
        for router in self._routers:
            app.include_router(router, dependencies=[Depends(LEASE_TOKEN)])
        # Middleware, not routes: heartbeats are too frequent for the framework's routing (decision
        # 24). The routes of the verbs only describe them in OpenAPI.
        app.add_middleware(
            RpcApp,
            leases=self._leases,
            table=self._verbs,
            limits=self._limits,
            metrics=self.metrics,
        )


def make_agent_app(
    version: str,
    readiness: ReadinessCheck,
    endpoints: AgentEndpoints,
    large_bodies: Sequence[LargeBodyRoute] = (),
) -> FastAPI:
    """Return the application of an agent's own socket."""
    app = make_service_app(
        "choird for agents",
        version,
        readiness,
        max_body_bytes=HEARTBEAT_LIMIT.max_body,
        large_bodies=large_bodies,
        metrics=endpoints.metrics,
        own_metrics=False,  # an agent must not see the metrics of others
    )
    endpoints.add_to(app)
    return app


def make_host_app(
    *,
    version: str,
    readiness: ReadinessChecks,
    endpoints: AgentEndpoints,
    authentication: OperatorAuthentication,
    conversation_authentication: ConversationAuthentication,
    file_authentication: FileAuthentication,
    gateway: GatewayClients,
    console_inbox: ConsoleInbox,
    routers: Sequence[APIRouter],
    conversation_routers: Sequence[APIRouter],
    file_routes: APIRouter,
    signed_routes: APIRouter,
    sign_in_routes: APIRouter,
    client_apis: tuple[OpenAIEndpoints, McpEndpoint],
    metrics: ControlMetrics,
    secrets: SecretStore,
) -> FastAPI:
    """Return the application of the host endpoint: agents' endpoints, operators' API, console, hooks."""
    large_bodies = (*LARGE_BODIES, DOCUMENT_BODIES, HOOK_BODIES, *OPENAI_BODIES, MCP_BODIES)
    app = make_agent_app(version, CompleteReadiness(readiness), endpoints, large_bodies)
    app.title = "choird"
    app.add_middleware(DatabaseTimeoutMiddleware, readiness=readiness)
    app.add_middleware(PrivateAnswersMiddleware)
    # The console first: routes are compared in this order, and a message must not wait for a hundred of them.
    for_people = [Depends(conversation_authentication), Depends(OPERATOR_TOKEN)]
    for router in (console_routes(gateway, console_inbox), *conversation_routers):
        app.include_router(router, prefix="/v1", dependencies=for_people)

    operators_only = [Depends(authentication), Depends(OPERATOR_TOKEN)]
    for router in (*routers, _schema_routes(app)):
        # With a prefix here and no router around them: otherwise FastAPI would prepare the routes of nested
        # routers a second time, to see that each has a path.
        app.include_router(router, prefix="/v1", dependencies=operators_only)

    for_gateway = [Depends(file_authentication), Depends(GATEWAY_TOKEN)]
    app.include_router(file_routes, prefix="/v1", dependencies=for_gateway)

    # Each request proves by its own signature or token where it comes from.
    app.include_router(signed_routes, prefix="/v1", dependencies=[Depends(HOOK_SIGNATURE)])
    app.include_router(sign_in_routes, prefix="/v1")
    for api in client_apis:
        api.add_to(app)
    app.include_router(web_page_routes(gateway.files))

    _add_metrics(app, metrics, MetricsAuthentication(authentication, secrets))
    return app


def _add_metrics(
    app: FastAPI, metrics: ControlMetrics, authentication: MetricsAuthentication
) -> None:
    @app.get("/metrics", include_in_schema=False, dependencies=[Depends(authentication)])
    async def figures() -> Response:
        """Return choird's metrics; for operators, and for Prometheus with the secret `metrics-token`."""
        return Response(await metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def _schema_routes(app: FastAPI) -> APIRouter:
    router = ServiceRouter()

    @router.get("/openapi.json", include_in_schema=False)
    async def schema() -> dict[str, object]:
        """Describe this API."""
        return app.openapi()

    return router


@dataclass(frozen=True, slots=True)
class _SocketServer:
    """Serves one application on sockets, until `closed` is set."""

    tasks: asyncio.TaskGroup
    app: FastAPI
    closed: asyncio.Event

    def serve(self, sockets: list[socket.socket]) -> None:
        self.tasks.create_task(serve(self.app, sockets, self.closed))


class AgentSockets:
    """One listening socket per agent; sockets for new agents are opened while choird runs.

    The socket of an agent that was removed from the configuration stays open until choird stops: the
    agent may still be running, and without a lease token every request on it is refused.
    """

    def __init__(self, settings: ControlSettings) -> None:
        self._settings = settings
        self._bound: dict[str, socket.socket] = {}
        self._server: _SocketServer | None = None

    def bind(self, agent_ids: Sequence[str]) -> None:
        """Bind the sockets that are not bound yet, all or none; raises StartupError."""
        new: dict[str, socket.socket] = {}
        try:
            for name in agent_ids:
                if name not in self._bound:
                    new[name] = bind_unix(self._path_of(name))
        except StartupError:
            self._unbind(new)
            raise
        self._bound.update(new)

    def start_serving(self, tasks: asyncio.TaskGroup, app: FastAPI, closed: asyncio.Event) -> None:
        """Serve `app` on all sockets, including those opened later, until `closed` is set."""
        self._server = _SocketServer(tasks, app, closed)
        if self._bound:
            self._server.serve(list(self._bound.values()))

    @contextlib.contextmanager
    def open_for(self, agent_ids: Sequence[str]) -> Iterator[None]:
        """Open the sockets of new agents for the block; they are removed again if the block raises.

        Raises Unavailable when one cannot be bound; then none is.
        """
        # Only these are removed if the block raises; sockets that existed before stay.
        new = [name for name in agent_ids if name not in self._bound]
        try:
            self.bind(new)
        except StartupError as error:
            raise Unavailable(error.message) from error
        try:
            yield
        except BaseException:
            self._unbind({name: self._bound.pop(name) for name in new})
            raise
        if new and self._server is not None:
            self._server.serve([self._bound[name] for name in new])

    def close(self) -> None:
        """Close all sockets."""
        for bound in self._bound.values():
            bound.close()
        self._bound.clear()

    def _path_of(self, name: str) -> Path:
        return self._settings.agent_socket_dir(name) / "choir.sock"

    def _unbind(self, sockets: dict[str, socket.socket]) -> None:
        for name, bound in sockets.items():
            bound.close()
            self._path_of(name).unlink(missing_ok=True)
