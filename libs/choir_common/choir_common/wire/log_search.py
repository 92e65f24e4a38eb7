"""Search of a running session's stored log: the host tool `choir.log.search`.

Asked by the agent for events that it no longer keeps in memory; answered by control.
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
    """Which events before `before_rev` are wanted, best first, by words or by the beginning of a hash."""

    mode: Literal["keyword", "hash"]
    terms: tuple[str, ...] = Field(min_length=1, max_length=MAX_WORDS)
    """Lower-case words as they stand in JSON, or one prefix of a hash."""
    types: tuple[str, ...] = Field(max_length=100)
    """The types of events that are searched."""
    before_rev: int = Field(ge=1)
    limit: int = Field(ge=1, le=MAX_EVENTS)


class LogMatches(Wire):
    """The events that fit: those with most of the words, among equals the newest."""

    events: tuple[Event, ...] = ()
