"""Access checks of the OpenAI-compatible API: the client of a token, its agents and its conversations."""

from fastapi import Request

from choir_common.errors import Forbidden, NotFound
from choir_common.wire.api_clients import ApiScope, client_dm
from choir_control.api.rpc.caller import read_bearer_token, read_headers
from choir_control.api_clients.service import ApiClientService
from choir_control.configuration.api_clients import ApiClient
from choir_control.configuration.current import ConfigService, ConfigSnapshot

CONVERSATION_HEADER = "x-choir-conversation"


class ClientAuthentication:
    """Access check of all routes."""

    def __init__(self, clients: ApiClientService) -> None:
        self._clients = clients

    async def __call__(self, request: Request) -> None:
        """Set `request.state.client`; raises Unauthorized, or RateLimited for too many requests."""
        client = await self._clients.authenticate(read_bearer_token(read_headers(request.scope)))
        self._clients.count_request(client)
        request.state.client = client


class ConversationResolver:
    """Finds the agents of a client, and the conversation of a request."""

    def __init__(self, configuration: ConfigService) -> None:
        self._configuration = configuration

    def list_agents(self, client: ApiClient) -> list[str]:
        """Return the agents with which a client has a conversation of its own, by name."""
        return self._agents(self._configuration.current, client)

    def require_scope(self, client: ApiClient, scope: ApiScope) -> None:
        """Raise Forbidden if a client does not have a scope."""
        if scope not in client.scopes:
            options = " ".join(f"--scope {it}" for it in sorted({*client.scopes, scope}))
            raise Forbidden(
                f"This client has no scope {scope!r}. `choirctl client add {client.name} {options}` gives "
                "it one, with a new token."
            )

    def find(self, client: ApiClient, model: str, request: Request) -> str:
        """Return the conversation of a request to an agent.

        Raises NotFound for an agent that is not the client's, or for a conversation that is not its person's
        with that agent: as if there were none.
        """
        snapshot = self._configuration.current
        agents = self._agents(snapshot, client)
        if model not in agents:
            names = ", ".join(agents) or "none"
            raise NotFound(
                f"model: there is no agent {model[:64]!r} for this client (it has {names})."
            )
        dm = request.headers.get(CONVERSATION_HEADER)
        if dm is None:
            return client_dm(client.name, model)
        if not _may_use(snapshot, client, dm, model):
            raise NotFound(
                f"X-Choir-Conversation: {dm[:64]!r} is no conversation of this client's person with {model}."
            )
        return dm

    def may_use(self, client: ApiClient, model: str, dm: str) -> bool:
        """Return whether a conversation with an agent of the client is its own or one of its person's."""
        return _may_use(self._configuration.current, client, dm, model)

    def names_another(self, request: Request, dm: str) -> bool:
        """Return whether the header of a request names another conversation than `dm`."""
        return request.headers.get(CONVERSATION_HEADER, dm) != dm

    def _agents(self, snapshot: ConfigSnapshot, client: ApiClient) -> list[str]:
        names = sorted(client.agents or snapshot.config.agents)
        return [
            it for it in names if snapshot.client_dms.get(client_dm(client.name, it)) == client.name
        ]


def _may_use(snapshot: ConfigSnapshot, client: ApiClient, dm: str, agent_id: str) -> bool:
    """Return whether a conversation is the client's, or one of its person's at a console, with an agent."""
    conversation = snapshot.config.dms.get(dm)
    agent = snapshot.config.agents[agent_id]
    if conversation is None or dm not in (agent.defaults.dm, *agent.conversations):
        return False
    if dm in snapshot.client_dms:
        return snapshot.client_dms[dm] == client.name
    if (
        client.person is None
        or not snapshot.config.gateways[conversation.gateway].channel.uses_choir_api
    ):
        return False
    return snapshot.people.person_in(dm) == client.person
