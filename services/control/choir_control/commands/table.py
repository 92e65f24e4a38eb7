"""The command table: to add a command, add a row. Read by `obey`, served by `GET /v1/commands`.

`tests/contract/test_command_table.py` checks it against the routes and choirctl.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal
from choir_control.commands import agents, approvals, changes, configuring, sessions, works
from choir_control.commands.row import Act, Argument, Ask, Call, Kind, Row, Scope, Tell

AGENT = Argument("agent", Kind.AGENT)
NAME = Argument("name", required=True)
THE_AGENT = Argument("agent", Kind.AGENT, required=True)

HELP = Row("Show these commands.", typed="/help", route="GET /v1/commands")
"""Handled by `obey`, which has the table."""


def _inject(call: Call) -> InjectSignal:
    return InjectSignal(text=call.values["text"], sent_at=datetime.now(UTC))


def _cancel(call: Call) -> CancelSignal:
    return CancelSignal(job=call.values.get("job"))


CONVERSATION = (
    Row(
        "Show what the agent and its jobs do, what it holds, and what its budgets leave.",
        typed="/status",
        arguments=(AGENT,),
        does=Ask(agents.show_status),
        choirctl="agent status",
        route="GET /v1/agents/{agent_id}",
    ),
    Row(
        "Tell the agent something at once, while it works.",
        typed="/inject",
        arguments=(Argument("text", Kind.TEXT, required=True),),
        does=Tell(_inject),
        choirctl="agent inject",
        route="POST /v1/agents/{agent_id}/inject",
    ),
    Row(
        "Stop what it is doing for you now, or one of its jobs.",
        typed="/cancel",
        arguments=(Argument("job"),),
        does=Tell(_cancel, check=sessions.check_job),
        choirctl="agent cancel",
        route="POST /v1/agents/{agent_id}/cancel",
    ),
    Row(
        "Let it sum up the older part of the conversation.",
        typed="/compact",
        does=Tell(lambda _: CompactSignal()),
        choirctl="session compact",
        route="POST /v1/agents/{agent_id}/compact",
    ),
    Row(
        "Show its jobs, and what each is doing.",
        typed="/cores",
        arguments=(AGENT,),
        does=Ask(agents.show_cores),
        choirctl="session cores",
    ),
    Row(
        "Show what happened last.",
        typed="/events",
        arguments=(Argument("count", Kind.COUNT),),
        does=Ask(sessions.show_events),
        choirctl="session events",
        route="GET /v1/sessions/{session_id}/events",
    ),
    Row(
        "Stop the agent in good order; work it leaves open waits for its next start.",
        typed="/stop",
        arguments=(AGENT,),
        does=Act(agents.stop_agent),
        choirctl="agent stop",
        route="POST /v1/agents/{agent_id}/stop",
    ),
    Row(
        "Stop the agent in good order and start it again with what it holds.",
        typed="/restart",
        arguments=(AGENT,),
        does=Act(agents.restart_agent),
        choirctl="agent restart",
        route="POST /v1/agents/{agent_id}/restart",
    ),
    Row(
        "Show which model the agent thinks with, and which there are.",
        typed="/model",
        arguments=(AGENT,),
        does=Ask(changes.show_model),
        choirctl="model get",
        route="GET /v1/agents/{agent_id}/model",
    ),
    Row(
        "Have it think with another model, until it is restarted.",
        typed="/model llm",
        arguments=(NAME, AGENT),
        does=Act(changes.set_model),
        choirctl="model set",
        route="PUT /v1/agents/{agent_id}/model",
    ),
    Row(
        "Show which voice the agent speaks with, and which there are.",
        typed="/voice",
        does=Ask(changes.show_voice),
        choirctl="voice get",
        route="GET /v1/agents/{agent_id}/voice",
    ),
    Row(
        "Have it speak with another voice, until it is restarted.",
        typed="/voice",
        arguments=(NAME, AGENT),
        does=Act(changes.set_voice),
        choirctl="voice set",
        route="PUT /v1/agents/{agent_id}/voice",
    ),
    Row(
        "List what waits for your decision, or show one of it: what exactly would change.",
        typed="/approvals",
        arguments=(Argument("id"),),
        does=Ask(approvals.list_approvals),
        choirctl="approval list",
        route="GET /v1/approvals",
    ),
    Row(
        "Approve a request: by its id, its number in the list, or the only one.",
        typed="/approve",
        arguments=(Argument("id"),),
        does=Act(approvals.approve),
        choirctl="approval approve",
        route="POST /v1/approvals/{approval_id}/approve",
    ),
    Row(
        "Reject a request: by its id, its number in the list, or the only one.",
        typed="/reject",
        arguments=(Argument("id"),),
        does=Act(approvals.reject),
        choirctl="approval reject",
        route="POST /v1/approvals/{approval_id}/reject",
    ),
    Row("Let it spend as much again when a budget is used up.", typed="/continue"),
    HELP,
)

ADMIN = (
    Row(
        "Start an agent in this conversation; settings replace its defaults.",
        Scope.ADMIN,
        "/start",
        (THE_AGENT, Argument("settings", Kind.SETTINGS)),
        Act(agents.start_agent),
        choirctl="agent start",
        route="POST /v1/agents/{agent_id}/start",
    ),
    Row(
        "List all agents and how each stands.",
        Scope.ADMIN,
        "/agent list",
        (),
        Ask(agents.list_agents),
        choirctl="agent list",
        route="GET /v1/agents",
    ),
    Row(
        "Build an agent's image; the agent is not touched.",
        Scope.ADMIN,
        "/agent build",
        (THE_AGENT,),
        Act(works.build_agent),
        choirctl="agent build",
        route="POST /v1/agents/{agent_id}/build",
    ),
    Row(
        "Build an agent's image and, if it runs, start it with that.",
        Scope.ADMIN,
        "/update",
        (AGENT,),
        Act(works.update_agent),
        choirctl="agent update",
        route="POST /v1/agents/{agent_id}/update",
    ),
    Row(
        "Update all agents, one after the other.",
        Scope.ADMIN,
        "/update-all",
        (),
        Act(works.update_all),
        choirctl="agent update-all",
        route="POST /v1/agents/update-all",
    ),
    Row(
        "Show how far a long work is, or how it ended.",
        Scope.ADMIN,
        "/operation",
        (Argument("id"),),
        Ask(works.show_operation),
        choirctl="operation show",
        route="GET /v1/operations/{operation_id}",
    ),
    Row(
        "List the workspaces, who holds each, and how much is in it.",
        Scope.ADMIN,
        "/workspace list",
        (),
        Ask(works.list_workspaces),
        choirctl="workspace list",
        route="GET /v1/workspaces",
    ),
    Row(
        "Delete everything in a workspace; its agent is stopped first.",
        Scope.ADMIN,
        "/workspace reset",
        (NAME,),
        Act(works.reset_workspace, question=works.ask_before_reset),
        choirctl="workspace reset",
        route="POST /v1/workspaces/{name}/reset",
    ),
    Row(
        "Read and check config.json as a whole, and stage it.",
        Scope.ADMIN,
        "/config load",
        (),
        Act(configuring.load_config),
        choirctl="config load",
        route="POST /v1/config/load",
    ),
    Row(
        "Show what is staged and not yet in force.",
        Scope.ADMIN,
        "/config diff",
        (),
        Ask(configuring.diff_config),
        choirctl="config diff",
        route="GET /v1/config/diff",
    ),
    Row(
        "Put in force what you were shown.",
        Scope.ADMIN,
        "/config apply",
        (),
        Act(configuring.apply_config),
        choirctl="config apply",
        route="POST /v1/config/apply",
    ),
    Row(
        "List the names of secrets, and who uses each; never a value.",
        Scope.ADMIN,
        "/secret list",
        (),
        Ask(configuring.list_secrets),
        route="GET /v1/secrets",
    ),
)


def _for_operators(summary: str, choirctl: str | None, route: str | None) -> Row:
    return Row(summary, Scope.OPERATOR, choirctl=choirctl, route=route)


OPERATORS = (
    _for_operators("Show whether Choir works, and each part of it.", "status", "GET /v1/status"),
    _for_operators("Talk to an agent.", "chat", "POST /v1/dms/{dm}/messages"),
    _for_operators("Read what was said in a conversation.", None, "GET /v1/dms/{dm}/messages"),
    _for_operators("Hear what is said in a conversation.", None, "GET /v1/dms/{dm}/events"),
    _for_operators("Press a button in a conversation.", None, "POST /v1/dms/{dm}/press"),
    _for_operators("Put a file for a message.", None, "PUT /v1/dms/{dm}/files"),
    _for_operators(
        "Get a file of a message.", None, "GET /v1/dms/{dm}/messages/{outbox_id}/files/{ref}"
    ),
    _for_operators("List the conversations, and who holds each.", None, "GET /v1/dms"),
    _for_operators("Show one request whole.", "approval show", "GET /v1/approvals/{approval_id}"),
    _for_operators(
        "Follow a session's log as it grows.", None, "GET /v1/sessions/{session_id}/events/stream"
    ),
    _for_operators(
        "Take back what was approved and applied.",
        "approval rollback",
        "POST /v1/approvals/{approval_id}/rollback",
    ),
    _for_operators("List sessions, newest first.", "session list", "GET /v1/sessions"),
    _for_operators("Show one session.", "session show", "GET /v1/sessions/{session_id}"),
    _for_operators("List models and text-to-speech providers.", "model list", "GET /v1/models"),
    _for_operators("List voices.", "voice list", "GET /v1/voices"),
    _for_operators("List long works, newest first.", "operation list", "GET /v1/operations"),
    _for_operators("Hear what a work says.", None, "GET /v1/operations/{operation_id}/events"),
    _for_operators("Show the configuration in force.", "config show", "GET /v1/config"),
    _for_operators("Print the JSON Schema of config.json.", None, "GET /v1/config/schema"),
    _for_operators("Show who has the version in force.", "config report", "GET /v1/config/report"),
    _for_operators("Read secrets.json again.", "secret apply", "POST /v1/secrets/apply"),
    _for_operators("Cancel a core job of a session.", "session cancel", None),
    _for_operators(
        "Check that a session's log is what was written.",
        "session verify",
        "GET /v1/sessions/{session_id}/verify",
    ),
)

_OF_MEMORY = "/v1/agents/{agent_id}/memory"
MEMORY = (
    _for_operators("Show how much an agent remembers.", "memory status", f"GET {_OF_MEMORY}"),
    _for_operators(
        "List what an agent knows, or the units of its sessions.",
        "memory list",
        f"GET {_OF_MEMORY}/documents",
    ),
    _for_operators(
        "Show one document whole.", "memory show", f"GET {_OF_MEMORY}/documents/{{name}}"
    ),
    _for_operators(
        "Search an agent's memory as it would itself.", "memory search", f"POST {_OF_MEMORY}/search"
    ),
    _for_operators(
        "Write knowledge into an agent's memory.", "memory put", f"POST {_OF_MEMORY}/documents"
    ),
    _for_operators(
        "Erase a document and what only it supported.",
        "memory delete",
        f"DELETE {_OF_MEMORY}/documents/{{name}}",
    ),
    _for_operators(
        "Erase all that memory has of a session.",
        "memory delete",
        f"DELETE {_OF_MEMORY}/sessions/{{session_id}}",
    ),
    _for_operators(
        "Carry all of an agent's memory away.", "memory export", f"GET {_OF_MEMORY}/export"
    ),
    _for_operators(
        "Bring an export into an agent's memory.", "memory import", f"POST {_OF_MEMORY}/import"
    ),
    _for_operators(
        "Show who did what to an agent's memory.", "memory audit", f"GET {_OF_MEMORY}/audit"
    ),
    _for_operators(
        "Show what a search did.", "memory receipt", f"GET {_OF_MEMORY}/receipts/{{receipt_id}}"
    ),
)

_COLLECTIONS = "/v1/agents/{agent_id}/collections"
COLLECTIONS = (
    _for_operators(
        "Bring documents to an agent's memory.",
        "collection add",
        f"POST {_COLLECTIONS}/{{collection}}",
    ),
    _for_operators(
        "List the documents that were brought to an agent.",
        "collection list",
        f"GET {_COLLECTIONS}",
    ),
    _for_operators(
        "Erase a collection, or one document of it.",
        "collection remove",
        f"DELETE {_COLLECTIONS}/{{collection}}",
    ),
)

TABLE: tuple[Row, ...] = (*CONVERSATION, *ADMIN, *OPERATORS, *MEMORY, *COLLECTIONS)

# former names and common synonyms
ALIASES = {"/jobs": "/cores"}


def rows_for(is_admin: bool) -> Sequence[Row]:
    """Return the commands that may be typed in a conversation."""
    return [row for row in TABLE if row.typed and (row.scope is Scope.DM or is_admin)]
