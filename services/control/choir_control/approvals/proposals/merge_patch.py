"""JSON merge patch (RFC 7396), and the list of changes it makes. Pure functions."""

from collections.abc import Iterator, Sequence
from copy import deepcopy

from pydantic import JsonValue

from choir_common.wire.model import JsonObject


def apply_merge_patch(document: JsonValue, patch: JsonValue) -> JsonValue:
    """Return the patched document; the arguments are not modified."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def list_changes(
    before: JsonValue, after: JsonValue, path: tuple[str, ...] = ()
) -> Iterator[JsonObject]:
    """Yield each difference: its path, and `before` and `after` where a value exists."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            child_path = (*path, name)
            if name not in after:
                yield {"path": list(child_path), "before": before[name]}
            elif name not in before:
                yield {"path": list(child_path), "after": after[name]}
            else:
                yield from list_changes(before[name], after[name], child_path)
    elif before != after or type(before) is not type(after):
        yield {"path": list(path), "before": before, "after": after}


def is_still_applied(document: JsonValue, change: JsonObject) -> bool:
    """Return whether the document still has the value that the change set."""
    exists, value = _at(document, _steps(change))
    return exists == ("after" in change) and value == change.get("after")


def revert_changes(document: JsonObject, changes: Sequence[JsonObject]) -> JsonObject:
    """Return the document with each change undone."""
    result = deepcopy(document)
    for change in changes:
        *parents, last = _steps(change)
        node: JsonValue = result
        for step in parents:
            node = node.setdefault(step, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            continue
        if "before" in change:
            node[last] = deepcopy(change["before"])
        else:
            node.pop(last, None)
    return result


def _steps(change: JsonObject) -> list[str]:
    path = change["path"]
    return [str(step) for step in path] if isinstance(path, list) else []


def _at(document: JsonValue, steps: Sequence[str]) -> tuple[bool, JsonValue]:
    for step in steps:
        if not isinstance(document, dict) or step not in document:
            return False, None
        document = document[step]
    return True, document
