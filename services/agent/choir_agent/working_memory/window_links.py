"""URLs in a lane's window, by who wrote them. Pure.

Only what came from outside whole counts: a URL in the output of a command may have been put together from
private data.
"""

import re
from collections.abc import Iterator

from pydantic import JsonValue

from choir_agent.working_memory.lane_window import LaneWindow
from choir_common.wire.events import InjectedInstruction, ToolResultCommitted, UserMessageStarted
from choir_common.wire.model import JsonObject

_URL = re.compile(r"https?://[^\s<>\"'`\\^{|}()\[\]]+", re.IGNORECASE)
_TRAILING = ".,;:!?*_~"
SEARCH = "choir.web.search"
SOURCES = frozenset({SEARCH, "choir.web.browse", "choir.email.receive", "choir.email.check"})


def written_by_user(window: LaneWindow) -> set[str]:
    """Return the URLs in the user's messages."""
    payloads = [
        *(turn.head.payload for turn in window.turns),
        *(event.payload for turn in window.turns for step in turn.steps for event in step.events),
    ]
    texts = [
        payload.text
        for payload in payloads
        if isinstance(payload, UserMessageStarted)
        or (isinstance(payload, InjectedInstruction) and payload.by == "user")
    ]
    return {url for text in texts for url in _urls(text)}


def read_outside(window: LaneWindow) -> set[str]:
    """Return the URLs on pages, in mail, and of search results."""
    results = (
        event.payload
        for turn in window.turns
        for step in turn.steps
        for event in step.events
        if isinstance(event.payload, ToolResultCommitted)
    )
    return {
        url
        for result in results
        if result.tool in SOURCES and result.status == "success"
        for text in _texts(_links_of(result.tool, result.output))
        for url in _urls(text)
    }


def _links_of(tool: str, output: JsonObject) -> JsonValue:
    """Return the part of an output that others wrote; a list of search results repeats the query."""
    if tool != SEARCH:
        return output
    results = output.get("results")
    return (
        [item.get("url") for item in results if isinstance(item, dict)]
        if isinstance(results, list)
        else []
    )


def _urls(text: str) -> Iterator[str]:
    for match in _URL.finditer(text):
        yield match[0]
        yield match[0].rstrip(_TRAILING)


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case _:
            pass
