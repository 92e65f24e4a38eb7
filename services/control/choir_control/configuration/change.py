"""Tell what differs between two configurations, and what each difference takes to work (spec 17.6, 16).

Called by `staging`. Pure.
"""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from choir_common.wire.config import Config
from choir_common.wire.config_effect import category_of
from choir_common.wire.configuring import ConfigChange


def changes(before: Config, after: Config) -> tuple[ConfigChange, ...]:
    """Return every difference, in the order of the file's sections."""
    return tuple(
        _categorised(path, old, new)
        for path, old, new in _walk(
            (), before.model_dump(mode="json"), after.model_dump(mode="json")
        )
    )


def _categorised(path: tuple[str, ...], old: JsonValue, new: JsonValue) -> ConfigChange:
    dotted = ".".join(path)
    whole_agent = len(path) == 2 and path[0] == "agents"
    category, note = category_of(dotted)
    if whole_agent and old is None:
        category, note = "new-agent", f"can be started at once: choirctl agent start {path[1]}"
    elif whole_agent:
        category, note = (
            "removed-agent",
            (f"if it runs, it goes on until it is stopped: choirctl agent stop {path[1]}"),
        )
    elif len(path) == 2 and (old is None or new is None):
        # a name by itself is used by nobody yet, or by nobody any more
        category, note = "hot-reload", ""
    return ConfigChange(
        path=dotted,
        kind="added" if old is None else "removed" if new is None else "changed",
        category=category,
        before=old,
        after=new,
        note=note,
    )


def _walk(
    path: tuple[str, ...], old: JsonValue, new: JsonValue
) -> Iterator[tuple[tuple[str, ...], JsonValue, JsonValue]]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _walk((*path, key), old.get(key), new.get(key))
    else:
        yield path, old, new
