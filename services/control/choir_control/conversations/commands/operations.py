"""Handlers of the commands that start or show operations: builds, updates, workspace resets."""

from choir_common.errors import NotFound
from choir_common.wire.operations import OperationView, ResetWorkspace
from choir_control.conversations.commands.context import RESULT_FOLLOWS, CommandContext
from choir_control.conversations.commands.parser import result_recipient, target_agent
from choir_control.conversations.commands.spec import CommandCall

MEGABYTE = 1_000_000


async def build_agent(context: CommandContext, call: CommandCall) -> str:
    """Start the build of an agent's image."""
    agent_id = target_agent(call)
    return _started(
        f"{agent_id} is being built",
        await context.rollout.build(agent_id, result_recipient(context, call)),
    )


async def update_agent(context: CommandContext, call: CommandCall) -> str:
    """Start the build of an agent's image and the agent's restart with it."""
    agent_id = target_agent(call)
    return _started(
        f"{agent_id} is being updated",
        await context.rollout.update(agent_id, result_recipient(context, call)),
    )


async def update_all(context: CommandContext, call: CommandCall) -> str:
    """Start the update of all agents, one after the other; a card shows its progress."""
    operation_id = await context.rollout.update_all(result_recipient(context, call))
    return _started("All agents are being updated", operation_id)


async def show_operation(context: CommandContext, call: CommandCall) -> str:
    """Return the progress or the result of an operation; without an id, of the newest."""
    operation_id = call.arguments.get("id")
    if operation_id is not None:
        return _describe(await context.operations.get(operation_id))
    newest = await context.operations.page(None, 1)
    if not newest:
        raise NotFound("There are no operations yet.")
    return _describe(newest[0])


async def list_workspaces(context: CommandContext, _: CommandCall) -> str:
    """Return each workspace's path, the agent that uses it, and its size."""
    lines = [
        f"{workspace.name}: {workspace.agent_id or 'free'}, {workspace.files} files, "
        f"{workspace.size / MEGABYTE:.1f} MB, {workspace.path}"
        for workspace in await context.workspaces.all()
    ]
    return "\n".join(lines) or "No workspace is configured."


async def ask_before_reset(context: CommandContext, call: CommandCall) -> str:
    """Return what resetting a workspace would delete, and which agent would be stopped."""
    name = call.arguments["name"]
    workspace = await context.workspaces.one(name)
    holder = f" {workspace.agent_id} uses it and is stopped first." if workspace.agent_id else ""
    more = "" if workspace.complete else " or more"
    return (
        f"This deletes everything in the workspace {name}: {workspace.files:,}{more} files, "
        f"{workspace.size / MEGABYTE:.1f} MB, in {workspace.path}.{holder}"
    )


async def reset_workspace(context: CommandContext, call: CommandCall) -> str:
    """Start deleting everything in a workspace; its agent is stopped first."""
    name = call.arguments["name"]
    confirmation = ResetWorkspace(confirm=name)
    operation_id = await context.workspaces.reset(
        name, confirmation, result_recipient(context, call)
    )
    return _started(f"{name} is being reset; an agent that uses it is stopped first", operation_id)


def _started(text: str, operation_id: str) -> str:
    return f"{text}. /operation {operation_id} shows its progress. {RESULT_FOLLOWS}"


def _describe(view: OperationView) -> str:
    share = f", {view.share:.0%}" if view.share is not None and view.status == "running" else ""
    first = f"{view.kind} of {view.subject}: {view.status}{share}. {view.step}".rstrip()
    return f"{first}\n{view.error}" if view.error else first
