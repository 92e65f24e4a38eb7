"""Tools of the MCP server: their names, scopes, texts and arguments. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import orjson
from pydantic import Field, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.wire.api_clients import ApiScope
from choir_common.wire.core_jobs import MAX_TASK
from choir_common.wire.messages import MAX_TEXT
from choir_common.wire.model import WireModel
from choir_common.wire.validation_messages import error_messages

MAX_WAIT_S = 3600
DEFAULT_WAIT_S = 50
"""Below the 60 seconds after which many clients give up a call."""
MAX_KEY = 255
SHOWN = 3


class _Message(WireModel):
    message: str = Field(
        min_length=1, max_length=MAX_TEXT, description="What to tell the agent, in plain words."
    )
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_KEY,
        description="A repeated call with the same key does not send the message again.",
    )


class AskArguments(_Message):
    """Arguments of `ask`."""

    wait_seconds: int = Field(
        default=DEFAULT_WAIT_S,
        ge=1,
        le=MAX_WAIT_S,
        description="How long to wait. After it the result has the job_id, and the agent goes on.",
    )


class StartJobArguments(_Message):
    """Arguments of `start_job`."""

    message: str = Field(
        min_length=1, max_length=MAX_TASK, description="The task, as a complete instruction."
    )


class JobStatusArguments(WireModel):
    """Arguments of `job_status`."""

    job_id: str = Field(min_length=1, max_length=64, description="From `start_job` or `ask`.")
    wait_seconds: int = Field(
        default=1, ge=1, le=MAX_WAIT_S, description="How long to wait for the end of the job."
    )


class MemorySearchArguments(WireModel):
    """Arguments of `memory_search`."""

    query: str = Field(min_length=1, max_length=1_000, description="What to look for.")
    store: Literal["knowledge", "session"] = Field(
        default="knowledge",
        description="`knowledge`: notes, facts and documents. `session`: earlier conversations.",
    )
    limit: int = Field(default=10, ge=1, le=20, description="Number of hits.")


class ApprovalsArguments(WireModel):
    """Arguments of `approvals`."""


ToolName = Literal["ask", "start_job", "job_status", "memory_search", "approvals"]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as clients see it."""

    name: ToolName
    scopes: tuple[ApiScope, ...]
    """One of them is needed."""
    title: str
    description: str
    arguments: type[WireModel]
    read_only: bool

    def is_for(self, scopes: tuple[ApiScope, ...]) -> bool:
        """Return whether a client with these scopes may call it."""
        return any(scope in scopes for scope in self.scopes)

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        schema = self.arguments.model_json_schema()
        for name in ("title", "description"):
            schema.pop(name, None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        return schema


SERVER_TOOLS: Mapping[str, ServerTool] = {
    tool.name: tool
    for tool in (
        ServerTool(
            "ask",
            ("chat",),
            "Ask the agent",
            "Send a message to the agent and wait for its answer. The agent has its own tools and memory, "
            "and remembers earlier messages of this client. A second message while it works ends its answer "
            "to the first.",
            AskArguments,
            read_only=False,
        ),
        ServerTool(
            "start_job",
            ("jobs",),
            "Start a job",
            "Start a job of the agent and return at once, with a job_id for `job_status`. The job sees "
            "nothing of the conversation, goes on if this client disconnects, and several can run at once.",
            StartJobArguments,
            read_only=False,
        ),
        ServerTool(
            "job_status",
            ("jobs", "chat"),
            "Status of a job",
            "Return whether a job is `working` or `done`, with the answer once it is done.",
            JobStatusArguments,
            read_only=True,
        ),
        ServerTool(
            "memory_search",
            ("memory",),
            "Search the agent's memory",
            "Search what the agent remembers and this client's person may read.",
            MemorySearchArguments,
            read_only=True,
        ),
        ServerTool(
            "approvals",
            ("approvals",),
            "Requests for approval",
            "List what the agent waits for a person to approve. This server cannot decide them.",
            ApprovalsArguments,
            read_only=True,
        ),
    )
}

A = TypeVar("A", bound=WireModel)


def parse_arguments(shape: type[A], arguments: Mapping[str, Any]) -> A:
    """Return the arguments of a call; raises InvalidRequest with the fields that do not fit."""
    try:
        return shape.model_validate_json(orjson.dumps(dict(arguments)))
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, "arguments")[:SHOWN])) from None
    except (orjson.JSONEncodeError, TypeError):
        raise InvalidRequest(
            "arguments: there is a character or number that JSON cannot have."
        ) from None


def read_message(arguments: AskArguments | StartJobArguments) -> str:
    """Return the message; raises InvalidRequest for an empty one, and for a command.

    Programs that use this server are steered by text of others: they must not decide approvals or stop the
    agent, which commands can do.
    """
    text = arguments.message
    if not text.strip():
        raise InvalidRequest("message: it is empty.")
    if text.lstrip().startswith("/"):
        raise InvalidRequest(
            "message: it begins with a slash, as commands do. They are not available here; begin with a word."
        )
    return text
