"""Handlers of the commands for config.json and secret names. They call `ConfigStaging`.

`/config apply` applies what this conversation was last shown; if something else is staged by then, it
fails.
"""

from choir_common.errors import Conflict
from choir_common.wire.config_secrets import secret_references
from choir_control.agents.rollout.config_staging import StagedDifference
from choir_control.conversations.commands.context import RESULT_FOLLOWS, CommandContext
from choir_control.conversations.commands.parser import result_recipient
from choir_control.conversations.commands.spec import CommandCall

MAX_SHOWN_CHANGES = 30
COMMIT_CHARS = 9
STAGED_TEXT = "config.json is staged; /config diff shows it."


async def load_config(context: CommandContext, call: CommandCall) -> str:
    """Read config.json, check all repositories, and stage the result."""

    async def load() -> str:
        await context.staging.load()
        return STAGED_TEXT

    result = await context.background.run(
        result_recipient(context, call), "config load", "all", load
    )
    if result is None:
        return f"The repositories are being fetched. {RESULT_FOLLOWS}"
    if result != STAGED_TEXT:
        return result
    # apply accepts only the digest that this conversation was shown
    return _show_difference(context, call, await context.staging.diff(), "Staged")


async def diff_config(context: CommandContext, call: CommandCall) -> str:
    """Return the differences between the staged and the active configuration."""
    return _show_difference(context, call, await context.staging.diff(), "Waiting")


async def apply_config(context: CommandContext, call: CommandCall) -> str:
    """Apply the configuration that this conversation was shown."""
    digest = context.dialogue.get_config_digest(call.dm)
    if digest is None:
        raise Conflict("Review the changes first: /config load or /config diff.")
    snapshot, difference = await context.staging.apply(digest)
    warning_text = "".join(f"\nWarning: {warning}" for warning in difference.warnings)
    return (
        f"Version {snapshot.version} is active, with {len(difference.changes)} changes; running "
        f"agents are notified.{warning_text}"
    )


async def list_secrets(context: CommandContext, _: CommandCall) -> str:
    """Return the names of the secrets that are set or missing; never a value."""
    uses = secret_references(context.configuration.current.config)
    set_names = context.secrets.names()
    lines = [
        f"{name}: {'set' if name in set_names else 'MISSING'}, "
        + (f"used by {', '.join(uses[name])}" if name in uses else "not used")
        for name in sorted(set_names | uses.keys())
    ]
    return "\n".join(lines) or "There are no secrets."


def _show_difference(
    context: CommandContext, call: CommandCall, difference: StagedDifference, word: str
) -> str:
    context.dialogue.set_config_digest(call.dm, difference.staged.digest)
    changes = [
        f"{change.kind} {change.path} ({change.category})"
        + (f": {change.note}" if change.note else "")
        for change in difference.changes
    ]
    changes += [
        f"{repo.owner} repository: {(repo.before or 'not built')[:COMMIT_CHARS]} -> "
        f"{repo.after[:COMMIT_CHARS]}{', stale' if repo.stale else ''} ({repo.category}): {repo.note}"
        for repo in difference.repos
    ]
    visible = changes[:MAX_SHOWN_CHANGES]
    lines = [f"{word}: {len(difference.changes)} changes of config.json.", *visible]
    if len(changes) > len(visible):
        lines.append(f"… and {len(changes) - len(visible)} more; choirctl config diff shows all.")
    lines += [f"Warning: {warning}" for warning in difference.warnings]
    return "\n".join([*lines, "/config apply applies it."] if difference.changes else lines)
