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
    return _begun(
        f"{agent_id} is being built",
        await context.rollout.build(agent_id, result_recipient(context, call)),
    )


async def update_agent(context: CommandContext, call: CommandCall) -> str:
    """Start the build of an agent's image and the agent's restart with it."""
    agent_id = target_agent(call)
    return _begun(
        f"{agent_id} is being updated",
        await context.rollout.update(agent_id, result_recipient(context, call)),
    )


async def update_all(context: CommandContext, call: CommandCall) -> str:
    """Start the update of all agents, one after the other; a card shows its progress."""
    begun = await context.rollout.update_all(result_recipient(context, call))
    return _begun("All agents are being updated", begun)


async def show_operation(context: CommandContext, call: CommandCall) -> str:
    """Return the progress or the result of an operation; without an id, of the newest."""
    named = call.arguments.get("id")
    if named is not None:
        return _how(await context.operations.get(named))
    newest = await context.operations.page(None, 1)
    if not newest:
        raise NotFound("Nothing has been built, updated or reset yet.")
    return _how(newest[0])


async def list_workspaces(context: CommandContext, _: CommandCall) -> str:
    """Return each workspace's path, the agent that uses it, and its size."""
    lines = [
        f"{each.name}: {each.agent_id or 'free'}, {each.files} files, "
        f"{each.size / MEGABYTE:.1f} MB, {each.path}"
        for each in await context.workspaces.all()
    ]
    return "\n".join(lines) or "No workspace is configured."


async def ask_before_reset(context: CommandContext, call: CommandCall) -> str:
    """Return what resetting a workspace would delete, and which agent would be stopped."""
    name = call.arguments["name"]
    found = await context.workspaces.one(name)
    holder = f" {found.agent_id} holds it and is stopped first." if found.agent_id else ""
    more = "" if found.complete else " or more"
    return (
        f"This deletes everything in the workspace {name}: {found.files:,}{more} files, "
        f"{found.size / MEGABYTE:.1f} MB, in {found.path}.{holder}"
    )


async def reset_workspace(context: CommandContext, call: CommandCall) -> str:
    """Start deleting everything in a workspace; its agent is stopped first."""
    name = call.arguments["name"]
    wanted = ResetWorkspace(confirm=name)
    begun = await context.workspaces.reset(name, wanted, result_recipient(context, call))
    return _begun(f"{name} is being emptied; an agent that holds it is stopped first", begun)


def _begun(what: str, operation_id: str) -> str:
    return f"{what}. /operation {operation_id} shows how far it is. {RESULT_FOLLOWS}"


def _how(view: OperationView) -> str:
    share = f", {view.share:.0%}" if view.share is not None and view.status == "running" else ""
    first = f"{view.kind} of {view.subject}: {view.status}{share}. {view.step}".rstrip()
    return f"{first}\n{view.error}" if view.error else first
