"""A lockset that somebody asks for, and the places where it meets others: pure.

Made by `table`. Two locks collide when one's key is the other's or stands over it, and one of them is
exclusive. So every lock leaves a mark at its own key and below each key over it, in places of four kinds, and
looks for marks of others in as many places as its path is deep, however many claims there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from choir_agent.locks.keys import WORKSPACE, chain, is_command, reads_under_commands
from choir_common.wire.events import LockHold

Lockset = tuple[LockHold, ...]

ANY_AT, EXCLUSIVE_AT = "any at ", "exclusive at "
ANY_BELOW, EXCLUSIVE_BELOW = "any below ", "exclusive below "
# core jobs' commands have a place of their own, because the edge's reads may overlook it
COMMANDS = f"{WORKSPACE} by core jobs"


@dataclass(frozen=True, slots=True)
class Claim:
    """A lockset that a lane's call holds or waits for; `ticket` is its place in line."""

    ticket: int
    owner: str
    locks: Lockset
    marks: tuple[str, ...] = field(repr=False, compare=False)
    """The places where it stands in others' way."""
    looks: tuple[str, ...] = field(repr=False, compare=False)
    """The places where others stand in its way."""
    looks_dirty: tuple[str, ...] = field(repr=False, compare=False)
    """The same for the edge when its reads may overlook core jobs' commands."""
    is_command: bool = False
    """Whether it is a core job's on the whole workspace."""

    @property
    def reads_dirty(self) -> bool:
        """Whether a core job's command may let it pass."""
        return self.looks != self.looks_dirty


def make_claim(ticket: int, owner: str, locks: Lockset) -> Claim:
    """Return the claim with its places worked out, once for all."""
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
