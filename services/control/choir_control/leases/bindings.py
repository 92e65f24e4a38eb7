"""Resource bindings of a session, read from its row. Used by the stores of leases and sessions.

The bindings are fixed at the start of a session; `model set` and `voice set` override them until it ends.
"""

from collections.abc import Mapping

import orjson

from choir_common.postgres.pool import Record
from choir_common.wire.rpc import ResourceBindings

COLUMNS = "workspace, llm, dm, resource_bindings, overrides, settings_rev"


def started_with(record: Record) -> ResourceBindings:
    """Return the bindings a session was started with."""
    stored = record["resource_bindings"]
    if stored is not None:
        return ResourceBindings.model_validate_json(stored)
    return ResourceBindings(workspace=record["workspace"], llm=record["llm"], dm=record["dm"])


def overrides_of(record: Record) -> Mapping[str, str]:
    """Return the bindings that were overridden since the start, by field."""
    changed: dict[str, str] = orjson.loads(record["overrides"])
    return changed


def bound_now(record: Record) -> ResourceBindings:
    """Return the bindings in force."""
    return started_with(record).model_copy(update=dict(overrides_of(record)))
