"""Handlers of the commands that start or show operations: builds, updates, workspace resets."""

from choir_common.errors import NotFound
from choir_common.i18n import _, join
from choir_common.sentence_translation import StoredSentence
from choir_common.wire.operations import OperationView, ResetWorkspace
from choir_control.conversations.commands.context import RESULT_FOLLOWS, CommandContext
from choir_control.conversations.commands.parser import result_recipient, target_agent
from choir_control.conversations.commands.spec import CommandCall

MEGABYTE = 1_000_000


async def build_agent(context: CommandContext, call: CommandCall) -> str:
    """Start the build of an agent's image."""
    agent_id = target_agent(call)
    return _started(
        _("{agent} is being built").format(agent=agent_id),
        await context.rollout.build(agent_id, result_recipient(context, call)),
    )


async def update_agent(context: CommandContext, call: CommandCall) -> str:
    """Start the build of an agent's image and the agent's restart with it."""
    agent_id = target_agent(call)
    return _started(
        _("{agent} is being updated").format(agent=agent_id),
        await context.rollout.update(agent_id, result_recipient(context, call)),
    )


async def update_all(context: CommandContext, call: CommandCall) -> str:
    """Start the update of all agents, one after the other; a card shows its progress."""
    operation_id = await context.rollout.update_all(result_recipient(context, call))
    return _started(_("All agents are being updated"), operation_id)


async def show_operation(context: CommandContext, call: CommandCall) -> str:
    """Return the progress or the result of an operation; without an id, of the newest."""
    operation_id = call.arguments.get("id")
    if operation_id is not None:
        return _describe(await context.operations.get(operation_id))
    newest = await context.operations.page(None, 1)
    if not newest:
        raise NotFound(_("There are no operations yet."))
    return _describe(newest[0])


async def list_workspaces(context: CommandContext, _call: CommandCall) -> str:
    """Return each workspace's path, the agent that uses it, and its size."""
    lines = [
        _("{name}: {agent}, {files} files, {size:.1f} MB, {path}").format(
            name=workspace.name,
            agent=workspace.agent_id or _("free"),
            files=workspace.files,
            size=workspace.size / MEGABYTE,
            path=workspace.path,
        )
        for workspace in await context.workspaces.all()
    ]
    return join("\n", lines) or _("No workspace is configured.")


async def ask_before_reset(context: CommandContext, call: CommandCall) -> str:
    """Return what resetting a workspace would delete, and which agent would be stopped."""
    name = call.arguments["name"]
    workspace = await context.workspaces.one(name)
    text = (
        _(
            "This deletes everything in the workspace {name}: {files:,} files, {size:.1f} MB, in {path}."
        )
        if workspace.complete
        else _(
            "This deletes everything in the workspace {name}: {files:,} or more files, {size:.1f} MB, in "
            "{path}."
        )
    ).format(name=name, files=workspace.files, size=workspace.size / MEGABYTE, path=workspace.path)
    if not workspace.agent_id:
        return text
    holder = _("{agent} uses it and is stopped first.").format(agent=workspace.agent_id)
    return join(" ", (text, holder))


async def reset_workspace(context: CommandContext, call: CommandCall) -> str:
    """Start deleting everything in a workspace; its agent is stopped first."""
    name = call.arguments["name"]
    confirmation = ResetWorkspace(confirm=name)
    operation_id = await context.workspaces.reset(
        name, confirmation, result_recipient(context, call)
    )
    return _started(
        _("{name} is being reset; an agent that uses it is stopped first").format(name=name),
        operation_id,
    )


def _started(text: str, operation_id: str) -> str:
    progress = _("/operation {id} shows its progress.").format(id=operation_id)
    return join(" ", (join("", (text, ".")), progress, RESULT_FOLLOWS))


def _describe(view: OperationView) -> str:
    share = f", {view.share:.0%}" if view.share is not None and view.status == "running" else ""
    first = _("{kind} of {subject}: {status}{share}.").format(
        kind=StoredSentence(view.kind),
        subject=view.subject,
        status=StoredSentence(view.status),
        share=share,
    )
    text = join(" ", (first, StoredSentence(view.step))) if view.step else first
    return join("\n", (text, StoredSentence(view.error))) if view.error else text
