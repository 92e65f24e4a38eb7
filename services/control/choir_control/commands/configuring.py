"""Handlers of the commands for config.json and secret names. They call `Staging`.

`/config apply` applies what this conversation was last shown; if something else is staged by then, it
fails.
"""

from choir_common.errors import Conflict
from choir_common.wire.config import secret_uses
from choir_control.commands.errands import LATER
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.commands.target import asker_of
from choir_control.configuration.staging import Difference

MOST = 30
SHORT = 9
LOADED = "config.json is staged; /config diff shows it."


async def load_config(hands: Hands, call: Call) -> str:
    """Read config.json, check all repositories, and stage the result."""

    async def load() -> str:
        await hands.staging.load()
        return LOADED

    said = await hands.errands.begin(asker_of(hands, call), "config load", "all", load)
    if said is None:
        return f"The repositories are being fetched. {LATER}"
    if said != LOADED:
        return said
    # apply accepts only the digest that this conversation was shown
    return _shown(hands, call, await hands.staging.diff(), "Staged")


async def diff_config(hands: Hands, call: Call) -> str:
    """Return the differences between the staged and the active configuration."""
    return _shown(hands, call, await hands.staging.diff(), "Waiting")


async def apply_config(hands: Hands, call: Call) -> str:
    """Apply the configuration that this conversation was shown."""
    digest = hands.choices.config_of(call.dm)
    if digest is None:
        raise Conflict("Look first at what would be applied: /config load, or /config diff.")
    snapshot, done = await hands.staging.apply(digest)
    warned = "".join(f"\nWarning: {warning}" for warning in done.warnings)
    return (
        f"Version {snapshot.version} is in force, with {len(done.changes)} changes; running agents are "
        f"told.{warned}"
    )


async def list_secrets(hands: Hands, _: Call) -> str:
    """Return the names of the secrets that are set or missing; never a value."""
    uses, known = secret_uses(hands.configuration.current.config), hands.vault.names()
    lines = [
        f"{name}: {'set' if name in known else 'MISSING'}, "
        + (f"used by {', '.join(uses[name])}" if name in uses else "used by nothing")
        for name in sorted(known | uses.keys())
    ]
    return "\n".join(lines) or "There are no secrets."


def _shown(hands: Hands, call: Call, found: Difference, word: str) -> str:
    hands.choices.show_config(call.dm, found.staged.digest)
    changes = [
        f"{change.kind} {change.path} ({change.category})"
        + (f": {change.note}" if change.note else "")
        for change in found.changes
    ]
    changes += [
        f"{repo.owner} repository: {(repo.before or 'not built')[:SHORT]} -> {repo.after[:SHORT]}"
        f"{', stale' if repo.stale else ''} ({repo.category}): {repo.note}"
        for repo in found.repos
    ]
    shown = changes[:MOST]
    lines = [f"{word}: {len(found.changes)} changes of config.json.", *shown]
    if len(changes) > len(shown):
        lines.append(f"… and {len(changes) - len(shown)} more; choirctl config diff shows all.")
    lines += [f"Warning: {warning}" for warning in found.warnings]
    return "\n".join([*lines, "/config apply puts this in force."] if found.changes else lines)
