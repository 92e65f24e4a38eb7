"""URLs, hosts and mail addresses in a lane's window, by who wrote them. Pure.

Only what came from outside whole counts: a URL in the output of a command may have been put together from
private data.
"""

import re
from collections.abc import Iterator, Sequence

import orjson
from pydantic import JsonValue

from choir_agent.working_memory.lane_window import LaneWindow
from choir_common.hosts import find_hosts, find_url_hosts
from choir_common.policy import find_addresses, find_destinations
from choir_common.wire.events import (
    EventPayload,
    InjectedInstruction,
    ModelOutput,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.model import JsonObject

_URL = re.compile(r"https?://[^\s<>\"'`\\^{|}⟦⟧()\[\]]+", re.IGNORECASE)
_TRAILING = ".,;:!?*_~"
SEARCH = "choir.web.search"
MAIL = "choir.email.send"
SOURCES = frozenset({SEARCH, "choir.web.browse", "choir.email.receive", "choir.email.check"})


def written_by_user(window: LaneWindow) -> set[str]:
    """Return the URLs in the user's messages."""
    return {url for text in _user_texts(window) for url in _urls(text)}


def hosts_of_user(window: LaneWindow) -> tuple[str, ...]:
    """Return the hosts that the user's messages name, the newest first."""
    texts = reversed([*_user_texts(window)])
    return tuple(dict.fromkeys(host for text in texts for host in find_hosts(text)))


def hosts_of_search(window: LaneWindow) -> tuple[str, ...]:
    """Return the hosts of search results."""
    urls = (
        text
        for result in _results(window)
        if result.tool == SEARCH and result.status == "success"
        for text in _texts(_links_of(SEARCH, result.output))
    )
    return tuple(dict.fromkeys(host for url in urls for host in find_url_hosts(url)))


def hosts_refused_before(window: LaneWindow, tool: str, arguments: JsonObject) -> tuple[str, ...]:
    """Return the new hosts to which an equal call tried to connect."""
    refused = {
        result.call_id: [host.host for host in result.connections if host.decision == "new_host"]
        for result in _results(window)
        if result.tool == tool and any(h.decision == "new_host" for h in result.connections)
    }
    if not refused:
        return ()
    outputs = (p for p in _payloads(window) if isinstance(p, ModelOutput))
    equal_ids = (
        call.call_id
        for output in outputs
        for call in output.tool_calls
        if call.call_id in refused and _is_equal(call.arguments, arguments)
    )
    return tuple(dict.fromkeys(host for call_id in equal_ids for host in refused[call_id]))


def known_recipients(window: LaneWindow) -> tuple[str, ...]:
    """Return the mail addresses that the user's messages name, and those to which mail was sent."""
    user_addresses = (address for text in _user_texts(window) for address in find_addresses(text))
    sent = (
        address
        for turn in window.turns
        for step in turn.steps
        for address in _sent_to([event.payload for event in step.events])
    )
    return tuple(dict.fromkeys((*user_addresses, *sent)))


def _sent_to(step: Sequence[EventPayload]) -> Iterator[str]:
    """Yield the recipients of the mail that was sent in one step; ids of calls are unique there."""
    results = (p for p in step if isinstance(p, ToolResultCommitted))
    sent_ids = {r.call_id for r in results if r.tool == MAIL and r.status == "success"}
    for output in step if sent_ids else ():
        for call in output.tool_calls if isinstance(output, ModelOutput) else ():
            if call.call_id in sent_ids:
                yield from _recipients(call.arguments)


def _recipients(arguments: str) -> tuple[str, ...]:
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return ()
    if not isinstance(parsed, dict):
        return ()
    return find_destinations(MAIL, parsed, has_network=False).recipients


def _is_equal(text: str, arguments: JsonObject) -> bool:
    try:
        return bool(orjson.loads(text) == arguments)
    except orjson.JSONDecodeError:
        return False


def _user_texts(window: LaneWindow) -> Iterator[str]:
    payloads = (*(turn.head.payload for turn in window.turns), *_payloads(window))
    for payload in payloads:
        match payload:
            case UserMessageStarted(wake_up=wake_up) if wake_up is not None and (
                wake_up.by_agent or wake_up.outside
            ):
                pass  # the agent's own words, or those of a trigger
            case UserMessageStarted(speaker=speaker) | InjectedInstruction(speaker=speaker) if (
                speaker is not None and speaker.is_outsider
            ):
                pass  # anybody in a group
            case UserMessageStarted(text=text) | InjectedInstruction(text=text, by="user"):
                yield text
            case _:
                pass


def _trigger_texts(window: LaneWindow) -> Iterator[str]:
    for turn in window.turns:
        match turn.head.payload:
            case UserMessageStarted(wake_up=wake_up, text=text):
                if wake_up is not None and wake_up.outside:
                    yield text
            case _:
                pass


def _payloads(window: LaneWindow) -> Iterator[EventPayload]:
    for turn in window.turns:
        for step in turn.steps:
            yield from (event.payload for event in step.events)


def _results(window: LaneWindow) -> Iterator[ToolResultCommitted]:
    yield from (p for p in _payloads(window) if isinstance(p, ToolResultCommitted))


def read_outside(window: LaneWindow) -> set[str]:
    """Return the URLs on pages, in mail, of search results, and in texts of triggers."""
    return {url for text in _trigger_texts(window) for url in _urls(text)} | {
        url
        for result in _results(window)
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
