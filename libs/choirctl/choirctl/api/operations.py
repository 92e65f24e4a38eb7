"""The operations of Choir's HTTP API that only choirctl calls; the others are in `choir_client.operations`.

`tests/service/control/test_openapi.py` compares each with the OpenAPI document.
"""

from choir_client.operation import Nothing, Operation
from choir_client.operations import VERIFY_TIMEOUT_S
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
from choir_common.wire.operator import CommandView, Page
from choir_common.wire.policy import AllowedHost, ExplainCall, ExplainedCall, PolicyRule
from choir_common.wire.telegram import ConnectTelegram, TelegramConnection
from choir_common.wire.web import MakeWebLink, WebLinkView, WebSessionView

_AGENT = "/v1/agents/{agent_id}"
_TELEGRAM = "/v1/telegram/connections/{connection_id}"
_CONNECT_TIMEOUT_S = 90.0

LIST_MODELS = Operation("GET", "/v1/models", Page[ModelView])
TEST_MODEL = Operation("POST", "/v1/models/{name}/test", ModelTestResult)
LIST_VOICES = Operation("GET", "/v1/voices", Page[VoiceView])
SHOW_CHOICES = Operation("GET", f"{_AGENT}/model", AgentModelAndVoice)
SET_MODEL = Operation("PUT", f"{_AGENT}/model", AgentModelAndVoice, SetModel)
SET_VOICE = Operation("PUT", f"{_AGENT}/voice", AgentModelAndVoice, SetVoice)
LIST_WORKSPACES = Operation("GET", "/v1/workspaces", Page[WorkspaceView])
RESET_WORKSPACE = Operation("POST", "/v1/workspaces/{name}/reset", OperationStarted, ResetWorkspace)

LIST_COMMANDS = Operation("GET", "/v1/commands", Page[CommandView])

LIST_RULES = Operation("GET", "/v1/policy", Page[PolicyRule])
LIST_GRANTS = Operation("GET", "/v1/policy/grants", Page[GrantView])
REVOKE_GRANT = Operation("DELETE", "/v1/policy/grants/{grant_id}", GrantView)
LIST_HOSTS = Operation("GET", f"{_AGENT}/hosts", Page[AllowedHost])
EXPLAIN_CALL = Operation("POST", f"{_AGENT}/policy", ExplainedCall, ExplainCall)

LIST_ANCHORS = Operation("GET", "/v1/audit/anchors", AnchorList, timeout_s=VERIFY_TIMEOUT_S)
ROTATE_KEY = Operation("POST", "/v1/audit/rotate", AnchorList)

ADD_CLIENT = Operation("POST", "/v1/clients", AddedApiClient, AddApiClient)
LIST_CLIENTS = Operation("GET", "/v1/clients", Page[ApiClientView])
REVOKE_CLIENT = Operation("DELETE", "/v1/clients/{name}", Nothing)

CONNECT_TELEGRAM = Operation(
    "POST", "/v1/telegram/connections", TelegramConnection, ConnectTelegram, _CONNECT_TIMEOUT_S
)
SHOW_TELEGRAM = Operation("GET", _TELEGRAM, TelegramConnection)
CANCEL_TELEGRAM = Operation("DELETE", _TELEGRAM, TelegramConnection)

CREATE_WEB_LINK = Operation("POST", "/v1/web/links", WebLinkView, MakeWebLink)
LIST_WEB_SESSIONS = Operation("GET", "/v1/web/sessions", Page[WebSessionView])
REVOKE_WEB_SESSION = Operation("DELETE", "/v1/web/sessions/{web_session_id}", Nothing)
