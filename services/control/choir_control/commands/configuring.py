"""Commands about config.json and the names of secrets. Rows of `table`; `Staging` does it, or nothing.

Applied is what this conversation was shown last; when something else is staged by then, nothing is.
"""

from choir_common.errors import Conflict
from choir_common.wire.config import secret_uses
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.configuration.staging import Difference

MOST = 30


async def load_config(hands: Hands, call: Call) -> str:
    """Read and check config.json as a whole, and stage it."""
    return _shown(hands, call, await hands.staging.load(), "Staged")


async def diff_config(hands: Hands, call: Call) -> str:
    """Say what differs between what is staged and what is in force."""
    return _shown(hands, call, await hands.staging.diff(), "Waiting")


async def apply_config(hands: Hands, call: Call) -> str:
    """Put in force what this conversation was shown."""
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
    """Say which secrets there are and which are missing; never a value."""
    uses, known = secret_uses(hands.configuration.current.config), hands.vault.names()
    lines = [
        f"{name}: {'set' if name in known else 'MISSING'}, "
        + (f"used by {', '.join(uses[name])}" if name in uses else "used by nothing")
        for name in sorted(known | uses.keys())
    ]
    return "\n".join(lines) or "There are no secrets."


def _shown(hands: Hands, call: Call, found: Difference, word: str) -> str:
    hands.choices.show_config(call.dm, found.staged.candidate.digest)
    changes = [
        f"{change.kind} {change.path} ({change.category})"
        + (f": {change.note}" if change.note else "")
        for change in found.changes[:MOST]
    ]
    more = len(found.changes) - len(changes)
    lines = [f"{word}: {len(found.changes)} changes.", *changes]
    lines += [f"… and {more} more; choirctl config diff shows all."] if more else []
    lines += [f"Warning: {warning}" for warning in found.warnings]
    return "\n".join([*lines, "/config apply puts this in force."] if found.changes else lines)
