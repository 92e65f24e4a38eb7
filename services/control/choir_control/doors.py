"""Make the two HTTP apps: the host endpoint, and the agents' own (ARCHITECTURE 1 and 4).

Called by `app`. The second one has no operator API at all, so an agent's socket cannot reach it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2
from fastapi import APIRouter, Depends, FastAPI, Response

from choir_common.http.service_app import Readiness, make_service_app
from choir_common.metrics import CONTENT_TYPE, Metrics
from choir_control.events.routes import event_routes
from choir_control.leases.guard import LeaseGuard
from choir_control.metrics.meter import Meter
from choir_control.operator.admission import Admission
from choir_control.operator.console import console_routes
from choir_control.rpc.limits import Limits
from choir_control.rpc.routes import MAX_BODY_BYTES, rpc_routes
from choir_control.rpc.verbs import Verbs
from choir_control.signals.follow import Followers


@dataclass(frozen=True, slots=True)
class AgentDoor:
    """What an agent may reach."""

    guard: LeaseGuard
    verbs: Verbs
    followers: Followers
    metrics: Metrics
    limits: Limits = field(default_factory=Limits)


def make_agent_app(version: str, readiness: Readiness, door: AgentDoor) -> FastAPI:
    """Return the app of an agent's own socket: the verbs and the signals."""
    app = make_service_app(
        "choird for agents",
        version,
        readiness,
        max_body_bytes=MAX_BODY_BYTES,
        metrics=door.metrics,
        own_metrics=False,  # an agent has no business with the figures of others
    )
    app.include_router(rpc_routes(door.guard, door.verbs, door.limits))
    app.include_router(event_routes(door.guard, door.followers, door.limits))
    return app


def make_host_app(
    version: str,
    readiness: Readiness,
    door: AgentDoor,
    admission: Admission,
    gateway: httpx2.AsyncClient,
    rooms: Sequence[APIRouter],
    meter: Meter,
) -> FastAPI:
    """Return the app of the host endpoint: all doors."""
    app = make_agent_app(version, readiness, door)
    app.title = "choird"
    operators = APIRouter(prefix="/v1", dependencies=[Depends(admission)])
    for room in (*rooms, console_routes(gateway)):
        operators.include_router(room)

    @operators.get("/openapi.json", include_in_schema=False)
    async def schema() -> dict[str, object]:
        """Describe this API."""
        return app.openapi()

    app.include_router(operators)

    @app.get("/metrics", include_in_schema=False, dependencies=[Depends(admission)])
    async def figures() -> Response:
        """Give Prometheus choird's figures: to operators, like everything of `/v1`."""
        return Response(await meter.render(), headers={"Content-Type": CONTENT_TYPE})

    return app
