"""Factories of the two HTTP applications: the host endpoint, and the agents' sockets.

Called by `app`. The agents' application contains no operator API, so an agent's socket cannot reach it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from fastapi import APIRouter, Depends, FastAPI, Response

from choir_common.errors import StartupError, Unavailable
from choir_common.http.listen import bind_unix, serve
from choir_common.http.openapi import LEASE_TOKEN, OPERATOR_TOKEN
from choir_common.http.service_app import LargeBodyRoute, ReadinessCheck, make_service_app
from choir_common.metrics import CONTENT_TYPE, Metrics
from choir_control.api.operator.authentication import MetricsAuthentication, OperatorAuthentication
from choir_control.api.operator.console import LARGE_BODIES, console_routes
from choir_control.api.operator.database_timeout import DatabaseTimeoutMiddleware
from choir_control.api.readiness import ReadinessChecks
from choir_control.api.rpc.app import RpcApp
from choir_control.api.rpc.rate_limits import HEARTBEAT_LIMIT, SessionRateLimiter
from choir_control.api.rpc.routes import make_rpc_router
from choir_control.api.rpc.verbs import AgentApi
from choir_control.api.signal_stream import make_signal_router
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.metrics.meter import ControlMetrics
from choir_control.log.signals.streams import SignalStreams


@dataclass(frozen=True, slots=True)
class AgentApiDependencies:
    """The dependencies of the endpoints that an agent may call."""

    guard: LeaseAuthenticator
    verbs: AgentApi
    followers: SignalStreams
    metrics: Metrics
    limits: SessionRateLimiter = field(default_factory=SessionRateLimiter)


def make_agent_app(
    version: str,
    readiness: ReadinessCheck,
    dependencies: AgentApiDependencies,
    large_bodies: Sequence[LargeBodyRoute] = (),
) -> FastAPI:
    """Return the application of an agent's own socket: the verbs and the signal stream."""
    app = make_service_app(
        "choird for agents",
        version,
        readiness,
        max_body_bytes=HEARTBEAT_LIMIT.max_body,
        large_bodies=large_bodies,
        metrics=dependencies.metrics,
        own_metrics=False,  # an agent must not see the metrics of others
    )
    verbs = dependencies.verbs.table()
    shows_lease = [Depends(LEASE_TOKEN)]
    app.include_router(make_rpc_router(verbs), dependencies=shows_lease)
    # Middleware, not routes: heartbeats are too frequent for the framework's routing (decision 24).
    # The routes above only describe the verbs in OpenAPI.
    app.add_middleware(
        RpcApp,
        guard=dependencies.guard,
        table=verbs,
        limits=dependencies.limits,
        metrics=dependencies.metrics,
    )
    app.include_router(
        make_signal_router(dependencies.guard, dependencies.followers, dependencies.limits),
        dependencies=shows_lease,
    )
    return app


def make_host_app(
    version: str,
    readiness: ReadinessChecks,
    door: AgentApiDependencies,
    admission: OperatorAuthentication,
    gateway: httpx2.AsyncClient,
    routers: Sequence[APIRouter],
    meter: ControlMetrics,
    metrics_token: Callable[[], str | None],
) -> FastAPI:
    """Return the application of the host endpoint: agents' endpoints, operator API, console and metrics."""
    app = make_agent_app(version, ReadinessCheck(readiness.all_statuses), door, LARGE_BODIES)
    app.title = "choird"
    app.add_middleware(DatabaseTimeoutMiddleware, readiness=readiness)
    operators = APIRouter(dependencies=[Depends(admission), Depends(OPERATOR_TOKEN)])
    for room in (*routers, console_routes(gateway)):
        operators.include_router(room)

    @operators.get("/openapi.json", include_in_schema=False)
    async def schema() -> dict[str, object]:
        """Describe this API."""
        return app.openapi()

    # the prefix here: without one FastAPI would prepare every route a second time, to see that it has a path
    app.include_router(operators, prefix="/v1")

    readers = MetricsAuthentication(admission, metrics_token)

    @app.get("/metrics", include_in_schema=False, dependencies=[Depends(readers)])
    async def figures() -> Response:
        """Return choird's metrics; for operators, and for Prometheus with the secret `metrics-token`."""
        return Response(await meter.render(), headers={"Content-Type": CONTENT_TYPE})

    return app


class AgentSockets:
    """One listening socket per agent; sockets for new agents are opened while choird runs.

    The socket of an agent that was removed from the configuration stays open until choird stops: the
    agent may still be running, and without a lease token every request on it is refused.
    """

    def __init__(self, socket_dir: Callable[[str], Path]) -> None:
        self._directory_of = socket_dir
        self._bound: dict[str, socket.socket] = {}
        self._start: Callable[[list[socket.socket]], None] | None = None

    def bind(self, agent_ids: Sequence[str]) -> None:
        """Bind the sockets that are not bound yet, all or none; raises StartupError."""
        made: dict[str, socket.socket] = {}
        try:
            for name in agent_ids:
                if name not in self._bound:
                    made[name] = bind_unix(self._path_of(name))
        except StartupError:
            self._unbind(made)
            raise
        self._bound.update(made)

    def start_serving(self, tasks: asyncio.TaskGroup, app: FastAPI, closed: asyncio.Event) -> None:
        """Serve `app` on all sockets, including those opened later, until `closed` is set."""

        def start(sockets: list[socket.socket]) -> None:
            tasks.create_task(serve(app, sockets, closed))

        self._start = start
        if self._bound:
            start(list(self._bound.values()))

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
        if new and self._start is not None:
            self._start([self._bound[name] for name in new])

    def close(self) -> None:
        """Close all sockets."""
        for bound in self._bound.values():
            bound.close()
        self._bound.clear()

    def _path_of(self, name: str) -> Path:
        return self._directory_of(name) / "choir.sock"

    def _unbind(self, sockets: dict[str, socket.socket]) -> None:
        for name, bound in sockets.items():
            bound.close()
            self._path_of(name).unlink(missing_ok=True)
