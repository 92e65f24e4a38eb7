"""Check of a proposed call (tool, arguments, locks), and the ruling on it.

First comes `check_call`, in a thread because it resolves paths in the file system; then `rule_on_call`, which
is pure and runs in the model's order.
"""

from dataclasses import dataclass

import orjson

from choir_agent.locks.claim import Claim, Lockset
from choir_agent.locks.lock_manager import LockManager
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import AttachedFile, Tool, ToolFailed
from choir_agent.tools.workspace import STAGING_LOCK, Workspace, is_in_staging
from choir_common.eventlog.json_scrubbing import is_too_deep
from choir_common.lanes import EDGE_LANE
from choir_common.wire.events import HeldLock, ToolCall
from choir_common.wire.grants import EVERY_SCOPE, GrantScope, GrantUse
from choir_common.wire.model import JsonObject


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A valid call: its tool, checked arguments, canonical path and required locks."""

    tool: Tool
    arguments: JsonObject
    path: str
    locks: Lockset
    hosts: tuple[str, ...] = ()
    """New hosts to which a person agreed."""
    shown_files: tuple[AttachedFile, ...] | None = None
    """The files that a person was shown and agreed to send; None if nobody was asked."""


@dataclass(frozen=True, slots=True)
class RunCall:
    """The call may run now."""

    permit: CheckedCall


@dataclass(frozen=True, slots=True)
class WaitForLocks:
    """The call may run after the claims in `behind`."""

    permit: CheckedCall
    behind: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked about a call, apart from the call itself, which is always shown."""

    why: str = ""
    """The reason for the question, in one or more lines; at most `MAX_WHY` characters."""
    scopes: tuple[GrantScope, ...] = EVERY_SCOPE
    """The scopes that a yes may have; control offers those that the call permits."""
    grants: GrantUse = "any"
    hosts: tuple[str, ...] = ()
    """Hosts that are new to the agent; a yes lets the call reach them."""


@dataclass(frozen=True, slots=True)
class AskHuman:
    """The call needs a human's approval, or a grant that control has."""

    permit: CheckedCall
    question: Question


@dataclass(frozen=True, slots=True)
class RefuseCall:
    """The call may not run; the model receives the error."""

    arguments: JsonObject
    error: JsonObject


Ruling = RunCall | WaitForLocks | AskHuman | RefuseCall

PATH_SLOT = "{path}"
INODE = "inode:"


def check_call(
    call: ToolCall,
    registry: ToolRegistry,
    workspace: Workspace,
    lane: str = EDGE_LANE,
    hidden: frozenset[str] = frozenset(),
) -> CheckedCall | RefuseCall:
    """Return the call's tool, arguments and locks, or the reason why it is invalid.

    For an unknown tool the error lists the lane's tools, without the `hidden` ones.
    """
    tool = registry.find(call.tool)
    arguments = _parse(call.arguments)
    if tool is None:
        message = f"There is no tool {call.tool!r}."
        details: JsonObject = {"available_tools": [*registry.names(lane, hidden)]}
        return _refuse(arguments or {}, "unknown_tool", message, details)
    if arguments is None:
        return _refuse(
            {},
            "malformed_arguments",
            "The arguments are not a JSON object, or are nested too deeply.",
            {},
        )
    faults = registry.faults(call.tool, arguments)
    if faults:
        message = "The arguments do not match the tool's schema."
        return _refuse(arguments, "invalid_arguments", message, {"faults": [*faults]})
    try:
        path, lockset = _locks(tool.manifest, arguments, workspace)
    except ToolFailed as error:
        return RefuseCall(arguments, error.error_output())
    return CheckedCall(tool, arguments, path, lockset)


def rule_on_call(
    checked: CheckedCall | RefuseCall,
    lane: str,
    locks: LockManager,
    forbidden: JsonObject | None,
    *,
    question: Question | None,
) -> Ruling:
    """Return the ruling on a checked call; takes no lock and changes nothing.

    `forbidden` is the policy's error, if any; with a `question` a human decides.
    """
    if isinstance(checked, RefuseCall):
        return checked
    if forbidden is not None:
        return RefuseCall(checked.arguments, forbidden)
    if question is not None:
        return AskHuman(checked, question)
    behind = locks.barred_by(lane, checked.locks)
    return WaitForLocks(checked, behind) if behind else RunCall(checked)


def _parse(text: str) -> JsonObject | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and not is_too_deep(value) else None


def _refuse(arguments: JsonObject, code: str, message: str, details: JsonObject) -> RefuseCall:
    return RefuseCall(arguments, {"code": code, "message": message, **details})


def _locks(
    manifest: ToolManifest, arguments: JsonObject, workspace: Workspace
) -> tuple[str, Lockset]:
    path = ""
    if any(PATH_SLOT in template.resource for template in manifest.runtime.locks):
        path = workspace.canonical(str(arguments.get("path", ".")))
    is_in_staging = tuple(
        HeldLock(resource=_resource(template.resource, path), mode=template.mode)
        for template in manifest.runtime.locks
    )
    return path, (*is_in_staging, *_inode_locks(manifest, path, workspace))


def _inode_locks(manifest: ToolManifest, path: str, workspace: Workspace) -> Lockset:
    """Return the lock on a file's inode if the file has several names (hard links).

    Otherwise two names of one file would be locked independently.
    """
    modes = [lock.mode for lock in manifest.runtime.locks if PATH_SLOT in lock.resource]
    inode = workspace.hard_link_id(path) if modes else None
    if inode is None:
        return ()
    return (HeldLock(resource=f"{INODE}{inode}", mode="X" if "X" in modes else "S"),)


def _resource(template: str, path: str) -> str:
    # The staging area has a single lock for all its files.
    if PATH_SLOT in template and is_in_staging(path):
        return STAGING_LOCK
    return template.replace(PATH_SLOT, path)
