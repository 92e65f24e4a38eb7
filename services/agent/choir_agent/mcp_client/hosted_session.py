"""A session in which the server may ask the user or a model. One of four modules that import the SDK."""

from typing import TypedDict

import mcp_types as types
from mcp.client.session import (
    ClientRequestContext,
    ClientSession,
    ElicitationFnT,
    SamplingFnT,
)

from choir_agent.mcp_client.server_host import Ability, ServerHost
from choir_common.errors import ChoirError

_ABILITIES: dict[str, Ability] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
_REFUSALS = {
    "sampling/createMessage": "Choir does not let MCP servers use its models (sampling). The owner can "
    "allow it with `mcp.servers.NAME.sampling` of config.json.",
    "elicitation/create": "Choir does not let MCP servers ask the user (elicitation). Give the tool all "
    "values as arguments; secrets belong into `mcp.servers.NAME.secrets` of config.json.",
}


class HostedSession(ClientSession):
    """A session that refuses the server's questions with texts that say why.

    A callback of the SDK could, too, but would announce the feature.
    """

    abilities: frozenset[Ability] = frozenset()
    """What the server may ask for."""

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        """Answer a request of the server."""
        ability = _ABILITIES.get(request.method)
        if ability is None or ability in self.abilities:
            return await super().dispatch_input_request(ctx, request)
        return types.ErrorData(code=types.INVALID_REQUEST, message=_REFUSALS[request.method])


class HostCallbacks(TypedDict):
    """Arguments of the SDK's session; None: the feature is not announced."""

    elicitation_callback: ElicitationFnT | None
    sampling_callback: SamplingFnT | None


def host_callbacks(host: ServerHost) -> HostCallbacks:
    """Return the callbacks for what a server may ask for."""

    async def ask_person(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        try:
            answer = await host.ask_person(params.model_dump(mode="json", by_alias=True))
        except ChoirError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        return types.ElicitResult.model_validate(answer)

    async def ask_model(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        fields = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            answer = await host.ask_model(fields)
        except ChoirError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=error.message)
        return types.CreateMessageResult.model_validate(answer)

    return HostCallbacks(
        elicitation_callback=ask_person if "elicitation" in host.abilities else None,
        sampling_callback=ask_model if "sampling" in host.abilities else None,
    )
