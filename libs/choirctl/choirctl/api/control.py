"""Client of the operator API for the commands and the chat: the Python client, and what only choirctl calls.

Every failure is raised as an error of `choir_common.errors`, with a message for the person at the terminal.
"""

import contextlib
from collections.abc import AsyncIterator

from choir_client import AsyncChoirClient
from choir_common.target import Target
from choir_common.wire.api_clients import AddApiClient, AddedApiClient, ApiClientView
from choir_common.wire.audit import AnchorList
from choir_common.wire.grants import GrantView
from choir_common.wire.model_check import ModelTestResult
from choir_common.wire.operations import (
    AgentModelAndVoice,
    ModelView,
    OperationStarted,
    ResetWorkspace,
    SetModel,
    SetVoice,
    VoiceView,
    WorkspaceView,
)
from choir_common.wire.operator import CommandView
from choir_common.wire.policy import AllowedHost, ExplainCall, ExplainedCall, PolicyRule
from choir_common.wire.telegram import ConnectTelegram, TelegramConnection
from choir_common.wire.web import MakeWebLink, WebLinkView, WebSessionView
from choirctl.api import operations
from choirctl.api.restart_wait import wait_for_restart


class ControlClient(AsyncChoirClient):
    """Client of one Choir's operator API; created by `connect`."""

    async def models(self) -> list[ModelView]:
        """Return the language models and the text-to-speech providers."""
        return (await self.connection.call(operations.LIST_MODELS)).items

    async def test_model(self, name: str, timeout_s: float) -> ModelTestResult:
        """Call a model once. Raises NotFound, and Conflict while another test of it is running."""
        return await self.connection.call(
            operations.TEST_MODEL, {"name": name}, timeout_s=timeout_s
        )

    async def voices(self) -> list[VoiceView]:
        """Return the voice profiles."""
        return (await self.connection.call(operations.LIST_VOICES)).items

    async def agent_choices(self, agent_id: str) -> AgentModelAndVoice:
        """Return the model and the voice of an agent. Raises NotFound."""
        return await self.connection.call(operations.SHOW_CHOICES, {"agent_id": agent_id})

    async def set_model(self, agent_id: str, llm: str) -> AgentModelAndVoice:
        """Switch a running agent to another model. Raises Conflict if it does not run."""
        body = SetModel(llm=llm)
        return await self.connection.call(operations.SET_MODEL, {"agent_id": agent_id}, body=body)

    async def set_voice(self, agent_id: str, voice: str) -> AgentModelAndVoice:
        """Switch a running agent to another voice. Raises Conflict if it does not run."""
        body = SetVoice(voice_profile=voice)
        return await self.connection.call(operations.SET_VOICE, {"agent_id": agent_id}, body=body)

    async def workspaces(self) -> list[WorkspaceView]:
        """Return the workspaces, with the agent that has each and how full it is."""
        return (await self.connection.call(operations.LIST_WORKSPACES)).items

    async def reset_workspace(self, name: str, request: ResetWorkspace) -> OperationStarted:
        """Start to delete everything in a workspace. Raises NotFound, Conflict if it is protected."""
        return await self.connection.call(operations.RESET_WORKSPACE, {"name": name}, body=request)

    async def connect_telegram(self, request: ConnectTelegram) -> TelegramConnection:
        """Start to connect a bot with an agent; a person confirms it with a code."""
        return await self.connection.call(operations.CONNECT_TELEGRAM, body=request)

    async def telegram_connection(self, connection_id: str) -> TelegramConnection:
        """Return the state of an attempt to connect a bot. Raises NotFound."""
        names = {"connection_id": connection_id}
        return await self.connection.call(operations.SHOW_TELEGRAM, names)

    async def cancel_telegram(self, connection_id: str) -> None:
        """Cancel an attempt to connect a bot. Raises NotFound, Conflict if it is too late."""
        names = {"connection_id": connection_id}
        await self.connection.call(operations.CANCEL_TELEGRAM, names)

    async def commands(self, dm: str) -> list[CommandView]:
        """Return the commands of a conversation. Raises NotFound if there is no such conversation."""
        return (await self.connection.call(operations.LIST_COMMANDS, params={"dm": dm})).items

    async def policy(self) -> list[PolicyRule]:
        """Return the rules on tool calls in the order in which they are tried."""
        return (await self.connection.call(operations.LIST_RULES)).items

    async def grants(self) -> list[GrantView]:
        """Return the yeses that cover later calls, oldest first."""
        return (await self.connection.call(operations.LIST_GRANTS)).items

    async def revoke_grant(self, grant_id: str) -> GrantView:
        """Revoke a grant. Raises NotFound if it is not in force."""
        return await self.connection.call(operations.REVOKE_GRANT, {"grant_id": grant_id})

    async def allowed_hosts(self, agent_id: str) -> list[AllowedHost]:
        """Return the hosts that people have named to an agent or allowed.

        Raises NotFound if there is no such agent.
        """
        return (await self.connection.call(operations.LIST_HOSTS, {"agent_id": agent_id})).items

    async def explain_call(self, agent_id: str, call: ExplainCall) -> ExplainedCall:
        """Return what the policy decides on a call. Raises NotFound if there is no such agent."""
        names = {"agent_id": agent_id}
        return await self.connection.call(operations.EXPLAIN_CALL, names, body=call)

    async def anchors(self) -> AnchorList:
        """Return the anchors of the logs, checked by control."""
        return await self.connection.call(operations.LIST_ANCHORS)

    async def rotate_audit_key(self) -> AnchorList:
        """Make a new key that signs the logs."""
        return await self.connection.call(operations.ROTATE_KEY)

    async def add_client(self, request: AddApiClient) -> AddedApiClient:
        """Add a client of the OpenAI-compatible API, or give one a new token."""
        return await self.connection.call(operations.ADD_CLIENT, body=request)

    async def api_clients(self) -> list[ApiClientView]:
        """Return the clients of the OpenAI-compatible API."""
        return (await self.connection.call(operations.LIST_CLIENTS)).items

    async def revoke_client(self, name: str) -> None:
        """Revoke a client; raises NotFound."""
        await self.connection.call(operations.REVOKE_CLIENT, {"name": name})

    async def create_web_link(self, person: str | None) -> WebLinkView:
        """Create a one-time link to the web page, for a person or for the operator."""
        body = MakeWebLink(person=person)
        return await self.connection.call(operations.CREATE_WEB_LINK, body=body)

    async def web_sessions(self) -> list[WebSessionView]:
        """Return the browsers that are signed in."""
        return (await self.connection.call(operations.LIST_WEB_SESSIONS)).items

    async def revoke_web_session(self, web_session_id: str) -> None:
        """Sign a browser out; raises NotFound."""
        names = {"web_session_id": web_session_id}
        await self.connection.call(operations.REVOKE_WEB_SESSION, names)


@contextlib.asynccontextmanager
async def connect(place: Target, *, at_once: bool = False) -> AsyncIterator[ControlClient]:
    """Open a client for the API at `place`; sends nothing yet.

    Waits for a control that is being restarted on this machine, unless `at_once`.
    Raises InvalidRequest for an invalid address, Unavailable if the local socket does not exist.
    """
    if not at_once:
        await wait_for_restart(place)
    place.check_socket()
    async with ControlClient(target=place) as client:
        yield client
