"""A claim: the lockset of one call, with the index entries that find its conflicts. Pure.

Workspace keys form a tree: `workspace`, below it the top directory `file:.`, below that each `file:<path>`
under its directory. Other keys (`browser_tab`, `choirtmp`, …) are independent.

Two locks conflict if one key equals the other or is its ancestor, and at least one is exclusive. Each lock is
therefore indexed at its own key and "below" each ancestor of it, for any mode and again for exclusive locks.
A lookup of conflicts then takes one step for each path component, however many claims there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from choir_common.lanes import is_core, is_edge
from choir_common.wire.events import HeldLock

WORKSPACE = "workspace"
FILE_PREFIX = "file:"
TOP_DIRECTORY = "file:."
EDGE_EFFECTS = "edge_effects"
"""Shared by effects of the edge lane, exclusive for the start of a core job: neither begins during the
other."""


def key_path(resource: str) -> tuple[str, ...]:
    """Return the ancestors of a key, outermost first, and then the key itself."""
    if not resource.startswith(FILE_PREFIX):
        return (resource,)
    if resource == TOP_DIRECTORY:
        return (WORKSPACE, TOP_DIRECTORY)
    slashes = [index for index, character in enumerate(resource) if character == "/"]
    return (WORKSPACE, TOP_DIRECTORY, *(resource[:slash] for slash in slashes), resource)


def keys_overlap(resource: str, other: str) -> bool:
    """Return whether one resource key equals or contains the other."""
    return resource in key_path(other) or other in key_path(resource)


def locks_conflict(lock: HeldLock, other: HeldLock) -> bool:
    """Return whether two locks of different calls exclude each other."""
    return (lock.mode == "X" or other.mode == "X") and keys_overlap(lock.resource, other.resource)


def is_job_command(owner: str, lock: HeldLock) -> bool:
    """Return whether a lock is a core job's exclusive lock on the whole workspace."""
    return is_core(owner) and lock.resource == WORKSPACE and lock.mode == "X"


def is_dirty_read(owner: str, lock: HeldLock) -> bool:
    """Return whether the edge lane may take this lock while a core job has the workspace (a dirty read)."""
    return is_edge(owner) and lock.mode == "S" and lock.resource.startswith(FILE_PREFIX)


Lockset = tuple[HeldLock, ...]

ANY_AT, EXCLUSIVE_AT = "any at ", "exclusive at "
ANY_BELOW, EXCLUSIVE_BELOW = "any below ", "exclusive below "
# Core jobs' commands have their own entry, because dirty reads of the edge lane may ignore it.
JOB_COMMANDS = f"{WORKSPACE} by core jobs"


@dataclass(frozen=True, slots=True)
class Claim:
    """A lockset that a call has or waits for; `ticket` is its position in the order of arrival."""

    ticket: int
    owner: str
    locks: Lockset
    index_keys: tuple[str, ...] = field(repr=False, compare=False)
    """Index entries under which this claim blocks others."""
    lookup_keys: tuple[str, ...] = field(repr=False, compare=False)
    """Index entries under which other claims block this one."""
    dirty_lookup_keys: tuple[str, ...] = field(repr=False, compare=False)
    """The same as `lookup_keys`, if dirty reads of the edge lane may pass core jobs' commands."""
    is_command: bool = False
    """Whether it is a core job's exclusive lock on the whole workspace."""

    @property
    def may_read_dirty(self) -> bool:
        """Whether this claim may pass a core job's command."""
        return self.lookup_keys != self.dirty_lookup_keys


def make_claim(ticket: int, owner: str, locks: Lockset) -> Claim:
    """Return a claim with its index entries computed."""
    marks = dict.fromkeys(mark for lock in locks for mark in _marks(owner, lock))
    looks = dict.fromkeys(look for lock in locks for look in _looks(lock))
    dirty = dict.fromkeys(
        look
        for lock in locks
        for look in _looks(lock)
        if not (is_dirty_read(owner, lock) and look == EXCLUSIVE_AT + JOB_COMMANDS)
    )
    command = any(is_job_command(owner, lock) for lock in locks)
    return Claim(ticket, owner, locks, tuple(marks), tuple(looks), tuple(dirty), command)


def _marks(owner: str, lock: HeldLock) -> Iterator[str]:
    *over, key = key_path(lock.resource)
    at = JOB_COMMANDS if is_job_command(owner, lock) else key
    yield ANY_AT + at
    yield from (ANY_BELOW + higher for higher in over)
    if lock.mode == "X":
        yield EXCLUSIVE_AT + at
        yield from (EXCLUSIVE_BELOW + higher for higher in over)


def _looks(lock: HeldLock) -> Iterator[str]:
    at, below = (ANY_AT, ANY_BELOW) if lock.mode == "X" else (EXCLUSIVE_AT, EXCLUSIVE_BELOW)
    for key in key_path(lock.resource):
        yield at + key
        if key == WORKSPACE:
            yield at + JOB_COMMANDS
    yield below + lock.resource
