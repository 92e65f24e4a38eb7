"""The command table: to add a command, add a row. Read by `obey`, served by `GET /v1/commands`.

`tests/contract/test_command_table.py` checks it against the routes and choirctl.
"""

from collections.abc import Sequence

from choir_common.i18n import _
from choir_control.configuration.people import Rank
from choir_control.conversations.commands import (
    agents,
    approvals,
    configuration,
    cost,
    forgetting,
    mcp,
    memory,
    operations,
    signals,
)
from choir_control.conversations.commands.connection_table import CONNECTION_COMMANDS
from choir_control.conversations.commands.memory_table import COLLECTION_COMMANDS, MEMORY_COMMANDS
from choir_control.conversations.commands.people_table import PEOPLE_COMMANDS
from choir_control.conversations.commands.ranks import is_for_rank
from choir_control.conversations.commands.schedule_table import SCHEDULE_COMMANDS
from choir_control.conversations.commands.spec import (
    ArgumentKind,
    CommandArgument,
    CommandScope,
    CommandSpec,
    MutationAction,
    QueryAction,
    SignalAction,
)
from choir_control.conversations.commands.web_table import WEB_COMMANDS

OPTIONAL_AGENT = CommandArgument("agent", ArgumentKind.AGENT)
REQUIRED_NAME = CommandArgument("name", required=True)
REQUIRED_AGENT = CommandArgument("agent", ArgumentKind.AGENT, required=True)

HELP = CommandSpec(_("Show these commands."), typed_form="/help", route="GET /v1/commands")
"""Handled by `obey`, which has the table."""


CONVERSATION_COMMANDS = (
    CommandSpec(
        _("Show the agent's state, jobs, resources and remaining budgets."),
        typed_form="/status",
        arguments=(OPTIONAL_AGENT,),
        action=QueryAction(agents.show_status),
        choirctl="agent status",
        route="GET /v1/agents/{agent_id}",
    ),
    CommandSpec(
        _("Show what the agent has spent today and this month, and its limits."),
        typed_form="/cost",
        arguments=(OPTIONAL_AGENT,),
        action=QueryAction(cost.show_cost),
        choirctl="cost",
        route="GET /v1/cost",
    ),
    CommandSpec(
        _("Send the agent an instruction while it is working."),
        typed_form="/inject",
        arguments=(CommandArgument("text", ArgumentKind.TEXT, required=True),),
        action=SignalAction(signals.inject),
        choirctl="agent inject",
        route="POST /v1/agents/{agent_id}/inject",
    ),
    CommandSpec(
        _("Cancel the agent's current turn, or one of its jobs."),
        typed_form="/cancel",
        arguments=(CommandArgument("job"),),
        action=SignalAction(signals.cancel, check=agents.check_job),
        choirctl="agent cancel",
        route="POST /v1/agents/{agent_id}/cancel",
    ),
    CommandSpec(
        "Start a core job without asking the agent's model.",
        CommandScope.OPERATOR,
        choirctl="agent start-job",
        route="POST /v1/agents/{agent_id}/jobs",
    ),
    CommandSpec(
        _("Summarize the older part of the conversation."),
        typed_form="/compact",
        action=SignalAction(signals.compact),
        choirctl="session compact",
        route="POST /v1/agents/{agent_id}/compact",
    ),
    CommandSpec(
        _("Start the conversation again; its summary and what was learned stay."),
        typed_form="/reset",
        action=MutationAction(forgetting.erase, confirm=forgetting.preview_reset),
        choirctl="session reset",
        route="POST /v1/agents/{agent_id}/reset",
    ),
    CommandSpec(
        _(
            "Start the conversation again with nothing; also erase its summary and what was "
            "learned."
        ),
        typed_form="/reset all",
        action=MutationAction(forgetting.erase, confirm=forgetting.preview_full_reset),
    ),
    CommandSpec(
        _(
            "Erase what is remembered with these words, of this `session`, or of the `last 10 "
            "minutes`."
        ),
        typed_form="/forget",
        arguments=(CommandArgument("what", ArgumentKind.TEXT, required=True),),
        action=MutationAction(forgetting.erase, confirm=forgetting.preview_forget),
        choirctl="memory forget",
        route="POST /v1/agents/{agent_id}/memory/forget",
    ),
    CommandSpec(
        _("Show the agent's jobs and their state."),
        typed_form="/cores",
        arguments=(OPTIONAL_AGENT,),
        action=QueryAction(agents.show_cores),
        choirctl="session cores",
    ),
    CommandSpec(
        _("Show the agent's MCP servers, their state and their tools."),
        typed_form="/mcp",
        arguments=(OPTIONAL_AGENT,),
        action=QueryAction(mcp.show_servers),
        choirctl="mcp list",
    ),
    CommandSpec(
        _("Show the newest events."),
        typed_form="/events",
        arguments=(CommandArgument("count", ArgumentKind.COUNT),),
        action=QueryAction(agents.show_events),
        choirctl="session events",
        route="GET /v1/sessions/{session_id}/events",
    ),
    CommandSpec(
        _("Stop the agent gracefully; open work is resumed at its next start."),
        typed_form="/stop",
        arguments=(OPTIONAL_AGENT,),
        action=MutationAction(agents.stop_agent),
        choirctl="agent stop",
        route="POST /v1/agents/{agent_id}/stop",
    ),
    CommandSpec(
        _("Restart the agent gracefully with the same resources."),
        typed_form="/restart",
        arguments=(OPTIONAL_AGENT,),
        action=MutationAction(agents.restart_agent),
        choirctl="agent restart",
        route="POST /v1/agents/{agent_id}/restart",
    ),
    CommandSpec(
        _("Show the agent's model and the available ones."),
        typed_form="/model",
        arguments=(OPTIONAL_AGENT,),
        action=QueryAction(agents.show_model),
        choirctl="model get",
        route="GET /v1/agents/{agent_id}/model",
    ),
    CommandSpec(
        _("Switch the agent's model until its next restart."),
        typed_form="/model llm",
        arguments=(REQUIRED_NAME, OPTIONAL_AGENT),
        action=MutationAction(agents.set_model),
        choirctl="model set",
        route="PUT /v1/agents/{agent_id}/model",
    ),
    CommandSpec(
        _("Show the agent's voice and the available ones."),
        typed_form="/voice",
        action=QueryAction(agents.show_voice),
        choirctl="voice get",
        route="GET /v1/agents/{agent_id}/voice",
    ),
    CommandSpec(
        _("Switch the agent's voice until its next restart."),
        typed_form="/voice",
        arguments=(REQUIRED_NAME, OPTIONAL_AGENT),
        action=MutationAction(agents.set_voice),
        choirctl="voice set",
        route="PUT /v1/agents/{agent_id}/voice",
    ),
    CommandSpec(
        _("Show whether this conversation is remembered, and whether memory is read."),
        typed_form="/memory",
        action=QueryAction(memory.show_memory),
        choirctl="memory mode",
        route="GET /v1/agents/{agent_id}/memory/mode",
    ),
    CommandSpec(
        _("Switch to local, synced or incognito; incognito: nothing is remembered."),
        typed_form="/memory",
        arguments=(CommandArgument("mode", required=True),),
        action=MutationAction(memory.set_memory_mode),
        choirctl="memory mode",
        route="PUT /v1/agents/{agent_id}/memory/mode",
    ),
    CommandSpec(
        _("Switch recall on, off or default: whether the agent is shown memories here."),
        typed_form="/recall",
        arguments=(CommandArgument("setting", required=True),),
        action=MutationAction(memory.set_recall),
        choirctl="memory recall",
        route="PUT /v1/agents/{agent_id}/memory/recall",
    ),
    CommandSpec(
        _("List pending approval requests, or show one with its exact changes."),
        typed_form="/approvals",
        arguments=(CommandArgument("id"),),
        action=QueryAction(approvals.list_approvals),
        choirctl="approval list",
        route="GET /v1/approvals",
    ),
    CommandSpec(
        _(
            "Approve a request: by its id, its number in the list, or the only one. Scope: once, "
            "job, session or always; or the values that it asks for."
        ),
        typed_form="/approve",
        arguments=(CommandArgument("id"), CommandArgument("scope", ArgumentKind.TEXT)),
        action=MutationAction(approvals.approve),
        choirctl="approval approve",
        route="POST /v1/approvals/{approval_id}/approve",
    ),
    CommandSpec(
        _("Reject a request: by its id, its number in the list, or the only one."),
        typed_form="/reject",
        arguments=(CommandArgument("id"), CommandArgument("dismiss")),
        action=MutationAction(approvals.reject),
        choirctl="approval reject",
        route="POST /v1/approvals/{approval_id}/reject",
    ),
    CommandSpec(
        _("List the yeses that cover later calls."),
        typed_form="/grants",
        action=QueryAction(approvals.list_grants),
        choirctl="policy grants",
        route="GET /v1/policy/grants",
    ),
    CommandSpec(
        _("End a yes that covers later calls."),
        typed_form="/revoke",
        arguments=(CommandArgument("id", required=True),),
        action=MutationAction(approvals.revoke),
        choirctl="policy revoke",
        route="DELETE /v1/policy/grants/{grant_id}",
    ),
    CommandSpec(_("Grant the same budget again when it is exhausted."), typed_form="/continue"),
    HELP,
)

ADMIN_COMMANDS = (
    CommandSpec(
        _("Start an agent in this conversation; settings replace its defaults."),
        CommandScope.ADMIN,
        "/start",
        (REQUIRED_AGENT, CommandArgument("settings", ArgumentKind.SETTINGS)),
        MutationAction(agents.start_agent),
        choirctl="agent start",
        route="POST /v1/agents/{agent_id}/start",
    ),
    CommandSpec(
        _("List all agents and their states."),
        CommandScope.ADMIN,
        "/agent list",
        (),
        QueryAction(agents.list_agents),
        choirctl="agent list",
        route="GET /v1/agents",
    ),
    CommandSpec(
        _("Build an agent's image; a running agent is not restarted."),
        CommandScope.ADMIN,
        "/agent build",
        (REQUIRED_AGENT,),
        MutationAction(operations.build_agent),
        choirctl="agent build",
        route="POST /v1/agents/{agent_id}/build",
    ),
    CommandSpec(
        _("Build an agent's image and, if the agent runs, restart it with that image."),
        CommandScope.ADMIN,
        "/update",
        (OPTIONAL_AGENT,),
        MutationAction(operations.update_agent),
        choirctl="agent update",
        route="POST /v1/agents/{agent_id}/update",
    ),
    CommandSpec(
        _("Update all agents, one after the other."),
        CommandScope.ADMIN,
        "/update-all",
        (),
        MutationAction(operations.update_all),
        choirctl="agent update-all",
        route="POST /v1/agents/update-all",
    ),
    CommandSpec(
        _("Show the progress or the result of an operation."),
        CommandScope.ADMIN,
        "/operation",
        (CommandArgument("id"),),
        QueryAction(operations.show_operation),
        choirctl="operation show",
        route="GET /v1/operations/{operation_id}",
    ),
    CommandSpec(
        _("List the workspaces, the agent that uses each, and their size."),
        CommandScope.ADMIN,
        "/workspace list",
        (),
        QueryAction(operations.list_workspaces),
        choirctl="workspace list",
        route="GET /v1/workspaces",
    ),
    CommandSpec(
        _("Delete everything in a workspace; its agent is stopped first."),
        CommandScope.ADMIN,
        "/workspace reset",
        (REQUIRED_NAME,),
        MutationAction(operations.reset_workspace, confirm=operations.ask_before_reset),
        choirctl="workspace reset",
        route="POST /v1/workspaces/{name}/reset",
    ),
    CommandSpec(
        _("Check config.json and stage it."),
        CommandScope.ADMIN,
        "/config load",
        (),
        MutationAction(configuration.load_config),
        choirctl="config load",
        route="POST /v1/config/load",
    ),
    CommandSpec(
        _("Show the staged changes."),
        CommandScope.ADMIN,
        "/config diff",
        (),
        QueryAction(configuration.diff_config),
        choirctl="config diff",
        route="GET /v1/config/diff",
    ),
    CommandSpec(
        _("Apply the changes you were shown."),
        CommandScope.ADMIN,
        "/config apply",
        (),
        MutationAction(configuration.apply_config),
        choirctl="config apply",
        route="POST /v1/config/apply",
    ),
    CommandSpec(
        _("List the names of secrets and what uses each; never a value."),
        CommandScope.ADMIN,
        "/secret list",
        (),
        QueryAction(configuration.list_secrets),
        route="GET /v1/secrets",
    ),
)


OPERATOR_COMMANDS = (
    CommandSpec.for_operators(
        "Show the status of Choir and its services.", "status", "GET /v1/status"
    ),
    CommandSpec.for_operators("Talk to an agent.", "chat", "POST /v1/dms/{dm}/messages"),
    CommandSpec.for_operators(
        "Run one call of a local tool.", "tool try", "POST /v1/agents/{agent_id}/tools/{tool}/try"
    ),
    CommandSpec.for_operators(
        "List the messages of a conversation.", None, "GET /v1/dms/{dm}/messages"
    ),
    CommandSpec.for_operators(
        "Stream the messages of a conversation.", None, "GET /v1/dms/{dm}/events"
    ),
    CommandSpec.for_operators("Press a button in a conversation.", None, "POST /v1/dms/{dm}/press"),
    CommandSpec.for_operators("Upload a file for a message.", None, "PUT /v1/dms/{dm}/files"),
    CommandSpec.for_operators(
        "Download a file of a message.", None, "GET /v1/dms/{dm}/messages/{outbox_id}/files/{ref}"
    ),
    CommandSpec.for_operators(
        "List the conversations and the agent bound to each.", None, "GET /v1/dms"
    ),
    CommandSpec.for_operators(
        "Show one request.", "approval show", "GET /v1/approvals/{approval_id}"
    ),
    CommandSpec.for_operators(
        "Follow a session's log.", None, "GET /v1/sessions/{session_id}/events/stream"
    ),
    CommandSpec.for_operators(
        "Roll back an applied request.",
        "approval rollback",
        "POST /v1/approvals/{approval_id}/rollback",
    ),
    CommandSpec.for_operators("List sessions, newest first.", "session list", "GET /v1/sessions"),
    CommandSpec.for_operators("Show one session.", "session show", "GET /v1/sessions/{session_id}"),
    CommandSpec.for_operators(
        "List models and text-to-speech providers.", "model list", "GET /v1/models"
    ),
    CommandSpec.for_operators("Call a model once.", "model test", "POST /v1/models/{name}/test"),
    CommandSpec.for_operators("List voices.", "voice list", "GET /v1/voices"),
    CommandSpec.for_operators("List the rules on tool calls.", "policy list", "GET /v1/policy"),
    CommandSpec.for_operators(
        "Show what the policy decides on a call.",
        "policy explain",
        "POST /v1/agents/{agent_id}/policy",
    ),
    CommandSpec.for_operators(
        "List hosts that people named or allowed.",
        "policy hosts",
        "GET /v1/agents/{agent_id}/hosts",
    ),
    CommandSpec.for_operators(
        "List the anchors of the logs.", "audit anchors", "GET /v1/audit/anchors"
    ),
    CommandSpec.for_operators("Check all logs and anchors.", "audit verify", None),
    CommandSpec.for_operators(
        "Replace the key that signs the logs.", "audit rotate", "POST /v1/audit/rotate"
    ),
    CommandSpec.for_operators(
        "Show what an erasure of a DM removes.", None, "GET /v1/dms/{dm}/erasure"
    ),
    CommandSpec.for_operators("Erase all of a DM.", None, "POST /v1/dms/{dm}/erasure"),
    CommandSpec.for_operators(
        "Show what an erasure of a person removes.", None, "GET /v1/people/{name}/erasure"
    ),
    CommandSpec.for_operators(
        "Erase all of a person.", "person erase", "POST /v1/people/{name}/erasure"
    ),
    CommandSpec.for_operators(
        "List operations, newest first.", "operation list", "GET /v1/operations"
    ),
    CommandSpec.for_operators(
        "Stream the progress of an operation.", None, "GET /v1/operations/{operation_id}/events"
    ),
    CommandSpec.for_operators("Show the active configuration.", "config show", "GET /v1/config"),
    CommandSpec.for_operators("Show the text of config.json.", None, "GET /v1/config/file"),
    CommandSpec.for_operators("Replace the text of config.json.", None, "PUT /v1/config/file"),
    CommandSpec.for_operators(
        "Print the JSON Schema of config.json.", None, "GET /v1/config/schema"
    ),
    CommandSpec.for_operators(
        "Show which processes have the active version.", "config report", "GET /v1/config/report"
    ),
    CommandSpec.for_operators("Store the value of a secret.", None, "PUT /v1/secrets/{name}"),
    CommandSpec.for_operators("Reload secrets.json.", "secret apply", "POST /v1/secrets/apply"),
    CommandSpec.for_operators("Cancel a core job of a session.", "session cancel", None),
    CommandSpec.for_operators(
        "Verify the hash chain of a session's log.",
        "session verify",
        "GET /v1/sessions/{session_id}/verify",
    ),
)

CHAT_COMMANDS: tuple[CommandSpec, ...] = (
    *CONVERSATION_COMMANDS,
    *SCHEDULE_COMMANDS,
    *CONNECTION_COMMANDS,
    *PEOPLE_COMMANDS,
    *WEB_COMMANDS,
    *ADMIN_COMMANDS,
    *OPERATOR_COMMANDS,
    *MEMORY_COMMANDS,
    *COLLECTION_COMMANDS,
)

# former names and common synonyms
ALIASES = {"/jobs": "/cores"}


def commands_for(rank: Rank) -> Sequence[CommandSpec]:
    """Return the commands that may be typed in a conversation."""
    return [row for row in CHAT_COMMANDS if row.typed_form and is_for_rank(row, rank)]
