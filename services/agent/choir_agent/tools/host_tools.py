"""Run host tools through control (EXECUTE_HOST_TOOL), using the call's id."""

import asyncio

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, Fenced, OutcomeUnknown, Unauthorized, Unavailable
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse

# A restarted service is back in a few seconds; after that the model should get the error.
RETRY_FOR_S = 10.0
RETRY_S = 1.0
PAUSE_S = 0.1
TRANSIENT = ("unavailable", "outcome_unknown")


async def run_host_tool(
    control: ControlClient, context: CallContext, manifest: ToolManifest, arguments: JsonObject
) -> JsonObject:
    """Run the manifest's tool through control and return its output.

    While control or the service behind it is unavailable, the call is retried for ten seconds,
    provided that a repetition is safe. Raises ToolFailed with the host's error.
    """
    runtime = manifest.runtime
    request = HostToolRequest(
        tool_name=manifest.name, call_id=context.call_id, input=arguments, dm=context.dm
    )
    began = asyncio.get_running_loop().time()
    backoff = Backoff()
    while True:
        gone_s = asyncio.get_running_loop().time() - began
        try:
            answer = await control.use_host_tool(request, runtime.timeout_ms / 1000)
            _raise_if_transient(answer)
            break
        except (Fenced, Unauthorized):
            raise
        except Unavailable as error:
            safe = runtime.idempotent or not isinstance(error, OutcomeUnknown)
            pause_s = backoff.pause_s()
            if not safe or gone_s + pause_s > RETRY_FOR_S:
                raise ToolFailed(error.code, error.message) from error
            await asyncio.sleep(pause_s)
        except ChoirError as error:
            raise ToolFailed(error.code, error.message) from error
    if answer.status == "success":
        return answer.output
    code, message = answer.output.get("code"), answer.output.get("message")
    raise ToolFailed(str(code or "host_error"), str(message or "The host gave no reason."))


async def wait_for_answer(
    control: ControlClient,
    context: CallContext,
    manifest: ToolManifest,
    arguments: JsonObject,
    *,
    within_s: float,
    late: str,
) -> JsonObject:
    """Repeat a call whose output has a `state` until that is `answered`; control may restart meanwhile.

    Raises ToolFailed as `run_host_tool`, and with the text `late` after `within_s`.
    """
    clock = asyncio.get_running_loop()
    deadline = clock.time() + within_s
    while True:
        try:
            output = await run_host_tool(control, context, manifest, arguments)
            if output.get("state") == "answered":
                return output
            await asyncio.sleep(PAUSE_S)
        except ToolFailed as error:
            if error.kind not in TRANSIENT or clock.time() > deadline:
                raise
            await asyncio.sleep(RETRY_S)
        if clock.time() > deadline:
            raise ToolFailed("no_answer", late)


def _raise_if_transient(answer: HostToolResponse) -> None:
    """Raise the service's error if it may be transient, so that the caller retries."""
    if answer.status == "success":
        return
    text = str(answer.output.get("message") or "")
    match answer.output.get("code"):
        case "unavailable":
            raise Unavailable(text)
        case "outcome_unknown" | "deadline_exceeded":
            raise OutcomeUnknown(text)
