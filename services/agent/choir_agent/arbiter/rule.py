"""Check of a proposed call (tool, arguments, locks), and the ruling on it.

Called by `arbiter` before anything else happens with a call: first `check`, in a thread because it resolves
paths in the file system; then `rule`, which is pure and runs in the model's order.
"""

import orjson

from choir_agent.arbiter.rulings import Ask, Permit, Refuse, Ruling, Run, Wait
from choir_agent.locks.claim import Lockset
from choir_agent.locks.locks import Locks
from choir_agent.log.state import EDGE
from choir_agent.log.storable import too_deep
from choir_agent.tools import staging
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.registry import Registry
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.wire.events import LockHold, ToolCall
from choir_common.wire.json import JsonObject

PATH_SLOT = "{path}"
INODE = "inode:"


def check(
    call: ToolCall,
    registry: Registry,
    workspace: Workspace,
    lane: str = EDGE,
    hidden: frozenset[str] = frozenset(),
) -> Permit | Refuse:
    """Return the call's tool, arguments and locks, or the reason why it is invalid.

    For an unknown tool the error lists the lane's tools, without the `hidden` ones.
    """
    tool = registry.find(call.tool)
    arguments = _parse(call.arguments)
    if tool is None:
        message = f"There is no tool {call.tool!r}."
        known: JsonObject = {"available_tools": [*registry.names(lane, hidden)]}
        return _refuse(arguments or {}, "unknown_tool", message, known)
    if arguments is None:
        return _refuse(
            {}, "malformed_arguments", "The arguments are no JSON object, or a too deep one.", {}
        )
    faults = registry.faults(call.tool, arguments)
    if faults:
        message = "The arguments do not fit the tool's schema."
        return _refuse(arguments, "invalid_arguments", message, {"faults": [*faults]})
    try:
        path, lockset = _locks(tool.manifest, arguments, workspace)
    except ToolFailed as error:
        return Refuse(arguments, error.output())
    return Permit(tool, arguments, path, lockset)


def rule(checked: Permit | Refuse, lane: str, locks: Locks, forbidden: JsonObject | None) -> Ruling:
    """Return the ruling on a checked call; takes no lock and changes nothing.

    `forbidden` is the policy's error, if any.
    """
    if isinstance(checked, Refuse):
        return checked
    if forbidden is not None:
        return Refuse(checked.arguments, forbidden)
    if checked.tool.manifest.runtime.needs_approval:
        return Ask(checked)
    behind = locks.barred_by(lane, checked.locks)
    return Wait(checked, behind) if behind else Run(checked)


def _parse(text: str) -> JsonObject | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and not too_deep(value) else None


def _refuse(arguments: JsonObject, code: str, message: str, details: JsonObject) -> Refuse:
    return Refuse(arguments, {"code": code, "message": message, **details})


def _locks(
    manifest: ToolManifest, arguments: JsonObject, workspace: Workspace
) -> tuple[str, Lockset]:
    path = ""
    if any(PATH_SLOT in template.resource for template in manifest.runtime.locks):
        path = workspace.canonical(str(arguments.get("path", ".")))
    holds = tuple(
        LockHold(resource=_resource(template.resource, path), mode=template.mode)
        for template in manifest.runtime.locks
    )
    return path, (*holds, *_by_inode(manifest, path, workspace))


def _by_inode(manifest: ToolManifest, path: str, workspace: Workspace) -> Lockset:
    """Return the lock on a file's inode if the file has several names (hard links).

    Otherwise two names of one file would be locked independently.
    """
    modes = [lock.mode for lock in manifest.runtime.locks if PATH_SLOT in lock.resource]
    inode = workspace.shared_inode(path) if modes else None
    if inode is None:
        return ()
    return (LockHold(resource=f"{INODE}{inode}", mode="X" if "X" in modes else "S"),)


def _resource(template: str, path: str) -> str:
    # The staging area has a single lock for all its files.
    if PATH_SLOT in template and staging.holds(path):
        return staging.LOCK
    return template.replace(PATH_SLOT, path)
