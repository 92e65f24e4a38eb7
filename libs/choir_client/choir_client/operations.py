"""The operations of Choir's HTTP API that the client calls.

`tests/service/control/test_openapi.py` compares each with the OpenAPI document.
"""

from choir_client.operation import Nothing, Operation, Stream
from choir_common.wire.attachments import Attachment
from choir_common.wire.config_api import (
    ApplyConfig,
    ConfigApplied,
    ConfigDiff,
    ConfigProgress,
    ConfigText,
    ConfigView,
    SecretName,
    SecretsApplied,
    SecretStored,
    SetSecret,
    WriteConfigText,
)
from choir_common.wire.console import ConsoleMessageRequest, ConsolePressRequest
from choir_common.wire.core_jobs import JobQueued, NewJob
from choir_common.wire.erasure import ErasePerson, PersonErasurePreview
from choir_common.wire.local_tools import ToolTrial, TryTool
from choir_common.wire.memory_collections import (
    CollectionDocuments,
    Collections,
    DocumentAdded,
    DocumentsRemoved,
    NewFolder,
)
from choir_common.wire.memory_forget import ForgetReport, ForgetSelection, ResetRequest
from choir_common.wire.memory_modes import ConversationMemory, SetMemoryMode, SetRecall
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    DocumentDetail,
    DocumentPage,
    FeedbackPage,
    ImportRecords,
    MemoryErased,
    MemoryImported,
    PutDocument,
)
from choir_common.wire.memory_search import MemoryHits, MemoryQuery, MemoryWritten, SearchReceipt
from choir_common.wire.memory_sessions import SessionErased
from choir_common.wire.messages import ButtonResponse, InboundAccepted, OutboundHistory
from choir_common.wire.money import CostReport
from choir_common.wire.operations import OperationStarted, OperationView
from choir_common.wire.operator import (
    AgentView,
    ApprovalView,
    CancelWork,
    CompactMemory,
    Decision,
    DmView,
    EventPage,
    InjectText,
    LogVerification,
    Page,
    SessionView,
    SignalQueued,
    StartAgent,
    SystemStatus,
)
from choir_common.wire.pairing import DecidePairing, PairingView
from choir_common.wire.people import LinkIdentity, PersonView
from choir_common.wire.schedules import NewSchedule, ScheduleEdit, ScheduleView
from choir_common.wire.triggers import (
    DeliveryView,
    HookTest,
    HookTestResult,
    HookView,
    TriggerView,
)

PAGE_SIZE = 200
RECONNECT_S = 60.0
"""Longer than a restart of control takes."""
VERIFY_TIMEOUT_S = 300.0
"""A log of a million events takes a while to hash."""
_STOP_TIMEOUT_S = 120.0
_ERASE_TIMEOUT_S = 90.0
_SWITCH_TIMEOUT_S = 120.0
"""The agent writes a summary and starts again."""
_FORGET_TIMEOUT_S = 480.0
"""Memory is erased, and a running agent may take minutes to stop and start."""
_ROLLBACK_TIMEOUT_S = 120.0
_TRIAL_TIMEOUT_S = 700.0
"""The longest timeout of a tool, and its start."""
_AGENT = "/v1/agents/{agent_id}"
_DM = "/v1/dms/{dm}"
_SESSION = "/v1/sessions/{session_id}"
_APPROVAL = "/v1/approvals/{approval_id}"
_SCHEDULE = "/v1/schedules/{schedule_id}"
_HOOK = "/v1/hooks/{name}"
_PERSON = "/v1/people/{name}"
_MEMORY = "/v1/agents/{agent_id}/memory"
_COLLECTION = "/v1/agents/{agent_id}/collections/{collection}"
_FOLDER_TIMEOUT_S = 60.0
_LOAD_TIMEOUT_S = 90.0
"""Control waits a minute in all for repositories that do not respond."""

STATUS = Operation("GET", "/v1/status", SystemStatus)

LIST_AGENTS = Operation("GET", "/v1/agents", Page[AgentView])
SHOW_AGENT = Operation("GET", _AGENT, AgentView)
START_AGENT = Operation("POST", f"{_AGENT}/start", AgentView, StartAgent, _STOP_TIMEOUT_S)
STOP_AGENT = Operation("POST", f"{_AGENT}/stop", AgentView, timeout_s=_STOP_TIMEOUT_S)
RESTART_AGENT = Operation("POST", f"{_AGENT}/restart", AgentView, timeout_s=2 * _STOP_TIMEOUT_S)
INJECT = Operation("POST", f"{_AGENT}/inject", SignalQueued, InjectText)
CANCEL = Operation("POST", f"{_AGENT}/cancel", SignalQueued, CancelWork)
START_JOB = Operation("POST", f"{_AGENT}/jobs", JobQueued, NewJob)
COMPACT = Operation("POST", f"{_AGENT}/compact", SignalQueued, CompactMemory)
BUILD_AGENT = Operation("POST", f"{_AGENT}/build", OperationStarted)
UPDATE_AGENT = Operation("POST", f"{_AGENT}/update", OperationStarted)
UPDATE_AGENTS = Operation("POST", "/v1/agents/update-all", OperationStarted)
TRY_TOOL = Operation("POST", f"{_AGENT}/tools/{{tool}}/try", ToolTrial, TryTool, _TRIAL_TIMEOUT_S)

LIST_DMS = Operation("GET", "/v1/dms", Page[DmView])
SEND_MESSAGE = Operation("POST", f"{_DM}/messages", InboundAccepted, ConsoleMessageRequest)
LIST_MESSAGES = Operation("GET", f"{_DM}/messages", OutboundHistory)
PRESS_BUTTON = Operation("POST", f"{_DM}/press", ButtonResponse, ConsolePressRequest)
FOLLOW_MESSAGES = Stream(f"{_DM}/events")

UPLOAD_FILE = Operation("PUT", f"{_DM}/files", Attachment)
DOWNLOAD_FILE = Stream(f"{_DM}/messages/{{outbox_id}}/files/{{ref}}")

LIST_SESSIONS = Operation("GET", "/v1/sessions", Page[SessionView])
SHOW_SESSION = Operation("GET", _SESSION, SessionView)
LIST_EVENTS = Operation("GET", f"{_SESSION}/events", EventPage)
FOLLOW_EVENTS = Stream(f"{_SESSION}/events/stream")
VERIFY_SESSION = Operation("GET", f"{_SESSION}/verify", LogVerification, timeout_s=VERIFY_TIMEOUT_S)

LIST_APPROVALS = Operation("GET", "/v1/approvals", Page[ApprovalView])
SHOW_APPROVAL = Operation("GET", _APPROVAL, ApprovalView)
APPROVE = Operation("POST", f"{_APPROVAL}/approve", ApprovalView, Decision)
REJECT = Operation("POST", f"{_APPROVAL}/reject", ApprovalView, Decision)
ROLL_BACK = Operation("POST", f"{_APPROVAL}/rollback", ApprovalView, timeout_s=_ROLLBACK_TIMEOUT_S)

LIST_SCHEDULES = Operation("GET", "/v1/schedules", Page[ScheduleView])
ADD_SCHEDULE = Operation("POST", "/v1/schedules", ScheduleView, NewSchedule)
SHOW_SCHEDULE = Operation("GET", _SCHEDULE, ScheduleView)
UPDATE_SCHEDULE = Operation("PATCH", _SCHEDULE, ScheduleView, ScheduleEdit)
REMOVE_SCHEDULE = Operation("DELETE", _SCHEDULE, ScheduleView)
PAUSE_SCHEDULE = Operation("POST", f"{_SCHEDULE}/pause", ScheduleView)
RESUME_SCHEDULE = Operation("POST", f"{_SCHEDULE}/resume", ScheduleView)
RUN_SCHEDULE = Operation("POST", f"{_SCHEDULE}/run", ScheduleView)

LIST_HOOKS = Operation("GET", "/v1/hooks", Page[HookView])
TEST_HOOK = Operation("POST", f"{_HOOK}/test", HookTestResult, HookTest)
LIST_HOOK_DELIVERIES = Operation("GET", f"{_HOOK}/deliveries", Page[DeliveryView])
LIST_TRIGGERS = Operation("GET", "/v1/triggers", Page[TriggerView])
LIST_TRIGGER_DELIVERIES = Operation("GET", "/v1/triggers/{name}/deliveries", Page[DeliveryView])

LIST_PEOPLE = Operation("GET", "/v1/people", Page[PersonView])
SHOW_PERSON = Operation("GET", _PERSON, PersonView)
LINK_IDENTITY = Operation("POST", f"{_PERSON}/identities", PersonView, LinkIdentity)
UNLINK_IDENTITY = Operation("DELETE", f"{_PERSON}/identities/{{gateway}}/{{user}}", PersonView)
LIST_PAIRINGS = Operation("GET", "/v1/people/pairings", Page[PairingView])
DECIDE_PAIRING = Operation("POST", "/v1/people/pairings", PairingView, DecidePairing)
REMOVE_PAIRING = Operation("DELETE", "/v1/people/pairings/{dm}", Nothing)
PREVIEW_PERSON_ERASURE = Operation("GET", f"{_PERSON}/erasure", PersonErasurePreview)
PREVIEW_DM_ERASURE = Operation("GET", f"{_DM}/erasure", PersonErasurePreview)
ERASE_PERSON = Operation("POST", f"{_PERSON}/erasure", OperationStarted, ErasePerson)
ERASE_DM = Operation("POST", f"{_DM}/erasure", OperationStarted, ErasePerson)

SHOW_MEMORY = Operation("GET", _MEMORY, AgentMemory)
SHOW_MODE = Operation("GET", f"{_MEMORY}/mode", ConversationMemory)
SET_MODE = Operation("PUT", f"{_MEMORY}/mode", ConversationMemory, SetMemoryMode, _SWITCH_TIMEOUT_S)
SET_RECALL = Operation("PUT", f"{_MEMORY}/recall", ConversationMemory, SetRecall)
SEARCH = Operation("POST", f"{_MEMORY}/search", MemoryHits, MemoryQuery)
SHOW_RECEIPT = Operation("GET", f"{_MEMORY}/receipts/{{receipt_id}}", SearchReceipt)
LIST_DOCUMENTS = Operation("GET", f"{_MEMORY}/documents", DocumentPage)
SHOW_DOCUMENT = Operation("GET", f"{_MEMORY}/documents/{{name}}", DocumentDetail)
WRITE_DOCUMENT = Operation("POST", f"{_MEMORY}/documents", MemoryWritten, PutDocument)
DELETE_DOCUMENT = Operation(
    "DELETE", f"{_MEMORY}/documents/{{name}}", MemoryErased, timeout_s=_ERASE_TIMEOUT_S
)
ERASE_SESSION = Operation(
    "DELETE", f"{_MEMORY}/sessions/{{session_id}}", SessionErased, timeout_s=_ERASE_TIMEOUT_S
)
FORGET = Operation("POST", f"{_MEMORY}/forget", ForgetReport, ForgetSelection, _FORGET_TIMEOUT_S)
RESET_CONVERSATION = Operation(
    "POST", f"{_AGENT}/reset", ForgetReport, ResetRequest, _FORGET_TIMEOUT_S
)
READ_AUDIT = Operation("GET", f"{_MEMORY}/audit", AuditEntries)
READ_FEEDBACK = Operation("GET", f"{_MEMORY}/feedback", FeedbackPage)
IMPORT_RECORDS = Operation(
    "POST", f"{_MEMORY}/import", MemoryImported, ImportRecords, _ERASE_TIMEOUT_S
)
LIST_COLLECTIONS = Operation("GET", f"{_AGENT}/collections", Collections)
LIST_COLLECTION = Operation("GET", _COLLECTION, CollectionDocuments)
ADD_DOCUMENT = Operation("PUT", f"{_COLLECTION}/files", DocumentAdded)
FOLLOW_FOLDER = Operation(
    "POST", f"{_COLLECTION}/folder", Collections, NewFolder, _FOLDER_TIMEOUT_S
)
REMOVE_COLLECTION = Operation("DELETE", _COLLECTION, DocumentsRemoved)

SHOW_CONFIG = Operation("GET", "/v1/config", ConfigView)
READ_CONFIG_FILE = Operation("GET", "/v1/config/file", ConfigText)
WRITE_CONFIG_FILE = Operation("PUT", "/v1/config/file", ConfigText, WriteConfigText)
LOAD_CONFIG = Operation("POST", "/v1/config/load", ConfigDiff, timeout_s=_LOAD_TIMEOUT_S)
DIFF_CONFIG = Operation("GET", "/v1/config/diff", ConfigDiff, timeout_s=_LOAD_TIMEOUT_S)
APPLY_CONFIG = Operation("POST", "/v1/config/apply", ConfigApplied, ApplyConfig)
REPORT_CONFIG = Operation("GET", "/v1/config/report", ConfigProgress)
LIST_SECRETS = Operation("GET", "/v1/secrets", Page[SecretName])
STORE_SECRET = Operation("PUT", "/v1/secrets/{name}", SecretStored, SetSecret)
APPLY_SECRETS = Operation("POST", "/v1/secrets/apply", SecretsApplied)
LIST_OPERATIONS = Operation("GET", "/v1/operations", Page[OperationView])
FOLLOW_OPERATION = Stream("/v1/operations/{operation_id}/events")
SHOW_OPERATION = Operation("GET", "/v1/operations/{operation_id}", OperationView)
SHOW_COST = Operation("GET", "/v1/cost", CostReport)

EXPORT = Stream(f"{_MEMORY}/export")
