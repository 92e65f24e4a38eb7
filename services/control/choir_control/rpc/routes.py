"""Serve the eight verbs. Mounted by `app` on the host endpoint and on each agent's own socket."""

from fastapi import APIRouter, Request, Response

from choir_common.errors import NotFound
from choir_control.leases.guard import LeaseGuard
from choir_control.rpc.body import read_body
from choir_control.rpc.caller import caller_of
from choir_control.rpc.verbs import Verbs

# a thousand events of some kilobytes each
MAX_BODY_BYTES = 4_000_000


def rpc_routes(guard: LeaseGuard, verbs: Verbs) -> APIRouter:
    """Return the router of the agents' door."""
    router = APIRouter(tags=["rpc"])
    table = verbs.table()

    async def call(request: Request) -> Response:
        """Answer one verb of an agent; `verb` is one of the eight of spec 12.5."""
        verb = str(request.path_params["verb"])
        lease = await caller_of(request, guard)
        if verb not in table:
            raise NotFound(f"There is no verb {verb[:40]!r}; there are {', '.join(table)}.")
        entry = table[verb]
        answer = await entry.answer(lease, await read_body(request, entry.takes))
        return Response(answer.model_dump_json(), media_type="application/json")

    router.add_route("/rpc/{verb}", call, methods=["POST"])
    return router
