"""Handlers of the commands for config.json and secret names. They call `ConfigStaging`.

`/config apply` applies what this conversation was last shown; if something else is staged by then, it
fails.
"""

from choir_common.errors import Conflict
from choir_common.i18n import _, join, ngettext
from choir_common.wire.config_secrets import secret_references
from choir_control.agents.rollout.config_staging import StagedDifference
from choir_control.conversations.commands.context import RESULT_FOLLOWS, CommandContext
from choir_control.conversations.commands.parser import result_recipient
from choir_control.conversations.commands.spec import CommandCall

MAX_SHOWN_CHANGES = 30
COMMIT_CHARS = 9
STAGED_TEXT = _("config.json is staged; /config diff shows it.")


async def load_config(context: CommandContext, call: CommandCall) -> str:
    """Read config.json, check all repositories, and stage the result."""

    async def load() -> str:
        await context.staging.load()
        return STAGED_TEXT

    result = await context.background.run(
        result_recipient(context, call), "config load", "all", load
    )
    if result is None:
        return _("The repositories are being fetched. {result_follows}").format(
            result_follows=RESULT_FOLLOWS
        )
    if result != STAGED_TEXT:
        return result
    # apply accepts only the digest that this conversation was shown
    return _show_difference(context, call, await context.staging.diff(), _("Staged"))


async def diff_config(context: CommandContext, call: CommandCall) -> str:
    """Return the differences between the staged and the active configuration."""
    return _show_difference(context, call, await context.staging.diff(), _("Waiting"))


async def apply_config(context: CommandContext, call: CommandCall) -> str:
    """Apply the configuration that this conversation was shown."""
    digest = context.dialogue.get_config_digest(call.dm)
    if digest is None:
        raise Conflict(_("Review the changes first: /config load or /config diff."))
    snapshot, difference = await context.staging.apply(digest)
    first = ngettext(
        "Version {version} is active, with {count} change; running agents are notified.",
        "Version {version} is active, with {count} changes; running agents are notified.",
        len(difference.changes),
        version=snapshot.version,
    )
    return join("\n", [first, *_warnings(difference)])


async def list_secrets(context: CommandContext, _call: CommandCall) -> str:
    """Return the names of the secrets that are set or missing; never a value."""
    uses = secret_references(context.configuration.current.config)
    set_names = context.secrets.names()
    lines = [
        _("{name}: {state}, {use}").format(
            name=name,
            state=_("set") if name in set_names else _("MISSING"),
            use=_("used by {names}").format(names=", ".join(uses[name]))
            if name in uses
            else _("not used"),
        )
        for name in sorted(set_names | uses.keys())
    ]
    return join("\n", lines) or _("There are no secrets.")


def _warnings(difference: StagedDifference) -> list[str]:
    return [_("Warning: {warning}").format(warning=warning) for warning in difference.warnings]


def _show_difference(
    context: CommandContext, call: CommandCall, difference: StagedDifference, word: str
) -> str:
    context.dialogue.set_config_digest(call.dm, difference.staged.digest)
    changes: list[str] = [
        f"{change.kind} {change.path} ({change.category})"
        + (f": {change.note}" if change.note else "")
        for change in difference.changes
    ]
    changes += [
        _("{owner} repository: {before} -> {after} ({category}): {note}").format(
            owner=repo.owner,
            before=repo.before[:COMMIT_CHARS] if repo.before else _("not built"),
            after=join("", (repo.after[:COMMIT_CHARS], _(", stale") if repo.stale else "")),
            category=repo.category,
            note=repo.note,
        )
        for repo in difference.repos
    ]
    visible = changes[:MAX_SHOWN_CHANGES]
    count = ngettext(
        "{word}: {count} change of config.json.",
        "{word}: {count} changes of config.json.",
        len(difference.changes),
        word=word,
    )
    lines: list[str] = [count, *visible]
    if len(changes) > len(visible):
        lines.append(
            ngettext(
                "… and {count} more; choirctl config diff shows all.",
                "… and {count} more; choirctl config diff shows all.",
                len(changes) - len(visible),
            )
        )
    lines += _warnings(difference)
    return join("\n", [*lines, _("/config apply applies it.")] if difference.changes else lines)
