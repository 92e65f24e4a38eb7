"""Search in a running session's stored log: the host tool `choir.log.search`.

The agent uses it for events it no longer has in memory; control runs it.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.events import Event
from choir_common.wire.model import Wire

HOST_TOOL = "choir.log.search"
SHORTEST_HASH = 6
MAX_WORDS = 32
MAX_EVENTS = 200


class LogSearch(Wire):
    """Search the events before `before_rev` by words or by a hash prefix, best match first."""

    mode: Literal["keyword", "hash"]
    terms: tuple[str, ...] = Field(min_length=1, max_length=MAX_WORDS)
    """Lower-case words as they appear in JSON, or one hash prefix."""
    types: tuple[str, ...] = Field(max_length=100)
    """The event types to search."""
    before_rev: int = Field(ge=1)
    limit: int = Field(ge=1, le=MAX_EVENTS)


class LogMatches(Wire):
    """The matching events: those with most of the words first, newer ones first among equals."""

    events: tuple[Event, ...] = ()
