"""Submit a proposal to control, which stores it for a human's decision.

The decision arrives as a signal, long after the call has ended. The same call always creates the same
proposal.
"""

import asyncio

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, Fenced, RateLimited, Unauthorized, Unavailable
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalKind, ApprovalRequest, ApprovalResponse

RETRY_FOR_S = 10.0
TIMEOUT_MS = 30_000
NEXT_STEPS = (
    "Nothing has changed, and nothing will unless a human approves. Do not wait: you will be notified of "
    "the decision."
)


async def submit_proposal(
    control: ControlClient,
    context: CallContext,
    kind: ApprovalKind,
    what: str,
    payload: JsonObject,
    then: str = "",
) -> ToolOutput:
    """Store the proposal and return its status at once; `then` is a further instruction for the model.

    Raises ToolFailed if control rejects it, or is unavailable for ten seconds.
    """
    request = ApprovalRequest(
        request_type=kind, call_id=context.call_id, payload=payload, dm=context.dm
    )
    answer = await _ask(control, request)
    return ToolOutput(
        {
            "status": answer.status,
            "approval_id": answer.approval_id,
            "what": what,
            "next": f"{NEXT_STEPS} {then}".rstrip(),
        },
        f"proposed: {what}",
    )


async def _ask(control: ControlClient, request: ApprovalRequest) -> ApprovalResponse:
    backoff = Backoff()
    began = asyncio.get_running_loop().time()
    while True:
        try:
            return await control.request_approval(request)
        except (Fenced, Unauthorized):
            raise
        except RateLimited as error:
            raise ToolFailed("too_many_pending", error.message) from error
        except Unavailable as error:
            pause_s = backoff.pause_s()
            if asyncio.get_running_loop().time() - began + pause_s > RETRY_FOR_S:
                raise ToolFailed(error.code, error.message) from error
            await asyncio.sleep(pause_s)
        except ChoirError as error:
            raise ToolFailed(error.code, error.message) from error
