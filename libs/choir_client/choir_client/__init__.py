"""Python client of Choir: messages, answers as they are written, core jobs, approvals, schedules and memory.

`ChoirClient` is sync, `AsyncChoirClient` async; both have the same methods. Errors are those of
`choir_common.errors`, and the types of requests and responses those of `choir_common.wire`.
"""

from choir_client._async.client import AsyncChoirClient
from choir_client._async.conversations import AsyncConversation, AsyncConversationStream
from choir_client._async.memory import AsyncMemory
from choir_client._async.people import AsyncPeople
from choir_client._sync.client import ChoirClient
from choir_client._sync.conversations import Conversation, ConversationStream
from choir_client._sync.memory import Memory
from choir_client._sync.people import People
from choir_client.conversation_events import Answer, ConversationEvent, SentMessage
from choir_client.failures import AgentFailure
from choir_client.job_events import Job
from choir_common.errors import (
    ChoirError,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from choir_common.wire.core_jobs import JobOptions
from choir_common.wire.memory_forget import ForgetSelection
from choir_common.wire.operator import Decision
from choir_common.wire.schedules import NewSchedule, ScheduleEdit

__all__ = [
    "AgentFailure",
    "Answer",
    "AsyncChoirClient",
    "AsyncConversation",
    "AsyncConversationStream",
    "AsyncMemory",
    "AsyncPeople",
    "ChoirClient",
    "ChoirError",
    "Conflict",
    "Conversation",
    "ConversationEvent",
    "ConversationStream",
    "DeadlineExceeded",
    "Decision",
    "Forbidden",
    "ForgetSelection",
    "InvalidRequest",
    "Job",
    "JobOptions",
    "Memory",
    "NewSchedule",
    "NotFound",
    "OutcomeUnknown",
    "People",
    "RateLimited",
    "ScheduleEdit",
    "SentMessage",
    "Unauthorized",
    "Unavailable",
]
