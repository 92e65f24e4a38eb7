"""A claim: the lockset of one call, with the index entries that find its conflicts. Pure.

Made by `table`. Two locks conflict if one key equals the other or is its ancestor, and at least one is
exclusive. Each lock is therefore indexed at its own key and "below" each ancestor of it, for any mode and
again for exclusive locks. A lookup of conflicts then takes one step for each path component, however many
claims there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from choir_agent.locks.keys import WORKSPACE, chain, is_command, reads_under_commands
from choir_common.wire.events import LockHold

Lockset = tuple[LockHold, ...]

ANY_AT, EXCLUSIVE_AT = "any at ", "exclusive at "
ANY_BELOW, EXCLUSIVE_BELOW = "any below ", "exclusive below "
# Core jobs' commands have their own entry, because dirty reads of the edge lane may ignore it.
COMMANDS = f"{WORKSPACE} by core jobs"


@dataclass(frozen=True, slots=True)
class Claim:
    """A lockset that a call has or waits for; `ticket` is its position in the order of arrival."""

    ticket: int
    owner: str
    locks: Lockset
    marks: tuple[str, ...] = field(repr=False, compare=False)
    """Index entries under which this claim blocks others."""
    looks: tuple[str, ...] = field(repr=False, compare=False)
    """Index entries under which other claims block this one."""
    looks_dirty: tuple[str, ...] = field(repr=False, compare=False)
    """The same as `looks`, if dirty reads of the edge lane may pass core jobs' commands."""
    is_command: bool = False
    """Whether it is a core job's exclusive lock on the whole workspace."""

    @property
    def reads_dirty(self) -> bool:
        """Whether this claim may pass a core job's command."""
        return self.looks != self.looks_dirty


def make_claim(ticket: int, owner: str, locks: Lockset) -> Claim:
    """Return a claim with its index entries computed."""
    marks = dict.fromkeys(mark for lock in locks for mark in _marks(owner, lock))
    looks = dict.fromkeys(look for lock in locks for look in _looks(lock))
    dirty = dict.fromkeys(
        look
        for lock in locks
        for look in _looks(lock)
        if not (reads_under_commands(owner, lock) and look == EXCLUSIVE_AT + COMMANDS)
    )
    command = any(is_command(owner, lock) for lock in locks)
    return Claim(ticket, owner, locks, tuple(marks), tuple(looks), tuple(dirty), command)


def _marks(owner: str, lock: LockHold) -> Iterator[str]:
    *over, key = chain(lock.resource)
    at = COMMANDS if is_command(owner, lock) else key
    yield ANY_AT + at
    yield from (ANY_BELOW + higher for higher in over)
    if lock.mode == "X":
        yield EXCLUSIVE_AT + at
        yield from (EXCLUSIVE_BELOW + higher for higher in over)


def _looks(lock: LockHold) -> Iterator[str]:
    at, below = (ANY_AT, ANY_BELOW) if lock.mode == "X" else (EXCLUSIVE_AT, EXCLUSIVE_BELOW)
    for key in chain(lock.resource):
        yield at + key
        if key == WORKSPACE:
            yield at + COMMANDS
    yield below + lock.resource
