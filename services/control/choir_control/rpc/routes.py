"""Serve the eight verbs. Mounted by `app` on the host endpoint and on each agent's own socket."""

from collections.abc import Awaitable, Callable
from typing import get_type_hints

from fastapi import APIRouter, Request, Response

from choir_common.errors import Fenced, NotFound
from choir_common.wire.model import Wire
from choir_control.leases.guard import LeaseGuard
from choir_control.rpc.body import parse_body, read_within
from choir_control.rpc.caller import caller_of
from choir_control.rpc.limits import CLASSES, VITAL, Limits
from choir_control.rpc.verbs import Verb, Verbs

MAX_BODY_BYTES = VITAL.max_body


def rpc_routes(guard: LeaseGuard, verbs: Verbs, limits: Limits) -> APIRouter:
    """Return the router of the agents' door."""
    router = APIRouter(tags=["rpc"])
    table = verbs.table()

    async def call(request: Request) -> Response:
        """Answer one verb of an agent; `verb` is one of the eight of spec 12.5."""
        verb = str(request.path_params["verb"])
        lease = await caller_of(request, guard)
        if verb not in table:
            raise NotFound(f"There is no verb {verb[:40]!r}; there are {', '.join(table)}.")
        entry, allowance = table[verb], CLASSES[verb]
        with limits.admitted(lease.session_id, allowance):
            body = await read_within(request, allowance.max_body)
            limits.weigh(lease.session_id, len(body))
            # it may have ended while its body came
            if not await guard.is_current(lease):
                raise Fenced("This session ended while it asked.")
            answer = await entry.answer(lease, parse_body(body, entry.takes))
        return Response(answer.model_dump_json(), media_type="application/json")

    # plain, because heartbeats are many: it answers all eight; what follows describes them only
    router.add_route("/rpc/{verb}", call, methods=["POST"])
    for verb, entry in table.items():
        router.add_api_route(
            f"/rpc/{verb}",
            _described(entry),
            methods=["POST"],
            name=verb,
            summary=verb,
            description=(entry.takes.__doc__ or "").strip(),
            response_model=get_type_hints(entry.answer)["return"],
        )
    return router


def _described(entry: Verb) -> Callable[..., Awaitable[Response]]:
    """Return a function of the verb's shape, for the OpenAPI document."""

    async def answered_elsewhere(body: Wire) -> Response:
        raise AssertionError("the route for all verbs comes first")

    answered_elsewhere.__annotations__["body"] = entry.takes
    return answered_elsewhere
