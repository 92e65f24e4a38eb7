"""The tool choir.log.search: events of the agent's session that it no longer has in memory."""

from choir_common.wire.json import JsonObject
from choir_common.wire.log_search import LogMatches, LogSearch
from choir_common.wire.model import Wire
from choir_control.eventlog.search_store import LogSearchStore
from choir_control.hosttools.read import read_input
from choir_control.leases.store import Lease


class StoredLogTool:
    """Search in the log of the calling session, never of another one."""

    def __init__(self, store: LogSearchStore) -> None:
        self._store = store

    async def search(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Return the matching events, best first."""
        wanted = read_input(LogSearch, given)
        return LogMatches(events=tuple(await self._store.search(lease.session_id, wanted)))
