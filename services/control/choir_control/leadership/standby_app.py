"""HTTP application of a standby: it reports that it lives and waits, and refuses everything else."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from choir_common.errors import Unavailable
from choir_common.http.health_app import make_health_app
from choir_common.http.responses import problem_response
from choir_common.i18n import _
from choir_common.metrics import Metrics
from choir_common.wire.operator import ComponentStatus

HEALTH_ROUTES = ("/livez", "/readyz", "/metrics")
STANDBY_IS_READY = "standbyok"
"""Parameter of `/readyz` with which a standby counts as ready, for the probes of an orchestrator."""
RETRY_AFTER_S = 1.0


class _StandbyReadiness:
    async def check(self) -> Sequence[ComponentStatus]:
        return (ComponentStatus(name="control", ok=False, detail=_("standby")),)


class _WaitingReadiness:
    async def check(self) -> Sequence[ComponentStatus]:
        return (ComponentStatus(name="control", ok=True, detail=_("standby")),)


class StandbyApp:
    """ASGI application of a standby."""

    def __init__(self, service: str) -> None:
        metrics = Metrics(service)
        self._health = make_health_app(_StandbyReadiness(), metrics)
        self._waiting_health = make_health_app(_WaitingReadiness(), metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        if scope["path"] not in HEALTH_ROUTES:
            error = Unavailable(
                _(
                    "This control process is a standby: another one leads. Send the request to the leader; "
                    "during a fail-over, try again in a second."
                ),
                retry_after_s=RETRY_AFTER_S,
            )
            await problem_response(error)(scope, receive, send)
            return
        counts_as_ready = STANDBY_IS_READY in Request(scope).query_params
        await (self._waiting_health if counts_as_ready else self._health)(scope, receive, send)
