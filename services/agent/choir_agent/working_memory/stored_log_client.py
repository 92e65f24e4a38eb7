"""Request events of this session that are no longer in memory from control.

Control selects events by words or hash; `log_search` then decides which of them the lane may read.
"""

import asyncio

import orjson
import structlog
from pydantic import ValidationError

from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.session_log import LogEntry
from choir_agent.working_memory.log_search import SEARCHED, words_in_json
from choir_common.errors import ChoirError, Fenced, Unauthorized
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import (
    HOST_TOOL,
    MAX_EVENTS,
    MIN_HASH_PREFIX,
    HostToolRequest,
    LogMatches,
    LogSearch,
)

log = structlog.get_logger("choir.agent.stored_log")

TIMEOUT_S = 10.0


class StoredLogClient:
    """The part of the session's log that only control has."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    async def search(
        self, call_id: str, arguments: JsonObject, before_rev: int, *, dm: str
    ) -> tuple[LogEntry, ...] | None:
        """Return candidate events of a conversation before `before_rev`, oldest first.

        Returns None if control is unavailable.
        """
        question = _question(arguments, before_rev)
        if before_rev <= 1 or question is None:
            return ()
        request = HostToolRequest(
            tool_name=HOST_TOOL,
            call_id=call_id,
            input=question.model_dump(mode="json"),
            dm=dm,
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._control.use_host_tool(request, TIMEOUT_S)
            if answer.status != "success":
                log.warning("stored log search failed", reason=answer.output.get("message"))
                return None
            matches = LogMatches.model_validate_json(orjson.dumps(answer.output))
        except (Fenced, Unauthorized):
            raise
        except (ChoirError, TimeoutError, ValidationError) as error:
            log.warning("stored log search failed", error=str(error)[:200])
            return None
        events = sorted(matches.events, key=lambda event: event.rev)
        return tuple(LogEntry(e.rev, e.hash, e.model_dump_json().encode()) for e in events)


def _question(arguments: JsonObject, before_rev: int) -> LogSearch | None:
    """Return the request, or None for a query that cannot match anything."""
    query = str(arguments["query"])
    by_hash = arguments.get("mode") == "hash"
    prefix = query.strip().lower()
    terms = (prefix,) * (len(prefix) >= MIN_HASH_PREFIX) if by_hash else words_in_json(query)
    if not terms:
        return None
    return LogSearch(
        mode="hash" if by_hash else "keyword",
        terms=terms,
        types=tuple(sorted(SEARCHED)),
        before_rev=before_rev,
        limit=MAX_EVENTS,
    )
