"""HTTP endpoints for control: the running agents, and health checks."""

import hmac
from collections.abc import Sequence

from fastapi import FastAPI, Request

from choir_common.errors import Unauthorized
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.service_app import make_service_app
from choir_common.metrics import Metrics
from choir_common.wire.egress import EgressTable
from choir_common.wire.messages import Empty
from choir_common.wire.operator import ComponentStatus
from choir_egress import VERSION
from choir_egress.agent_table import AgentTable

MAX_TABLE_BYTES = 16_000_000


class EgressReadiness:
    """The readiness check: the service depends on no other."""

    async def check(self) -> Sequence[ComponentStatus]:
        """Return that the service works."""
        return (ComponentStatus(name="egress", ok=True, detail=""),)


def make_health_app(metrics: Metrics, max_body_bytes: int = 0) -> FastAPI:
    """Build the app with health checks and metrics only."""
    return make_service_app(
        "Choir egress",
        VERSION,
        EgressReadiness(),
        metrics=metrics,
        max_body_bytes=max_body_bytes,
    )


def make_control_app(table: AgentTable, metrics: Metrics, token: str = "") -> FastAPI:
    """Build the app for control: it also takes the agents and their keys.

    `token` is required from its callers; over a Unix socket, its directory admits nobody else.
    """
    app = make_health_app(metrics, MAX_TABLE_BYTES)

    @app.put("/v1/agents", tags=["egress"], openapi_extra=openapi_body(EgressTable))
    async def put_agents(request: Request) -> Empty:
        """Replace the running agents and their rules."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and not hmac.compare_digest(bearer.encode(), token.encode()):
            raise Unauthorized("Control's token is needed (Authorization: Bearer ...).")
        await table.apply(await parse_request_body(request, EgressTable))
        return Empty()

    return app
