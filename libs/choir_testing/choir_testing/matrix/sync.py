"""Responses of /sync and /messages."""

import json
from dataclasses import dataclass
from typing import Any

from choir_common.wire.model import JsonObject
from choir_testing.matrix.faults import ApiError, bad_json
from choir_testing.matrix.homeserver import Homeserver
from choir_testing.matrix.rooms import FakeEvent, FakeRoom

FILTER_KEYS = {"event_fields", "event_format", "presence", "account_data", "room"}
ROOM_FILTER_KEYS = {
    "not_rooms",
    "rooms",
    "ephemeral",
    "include_leave",
    "state",
    "timeline",
    "account_data",
}
EVENT_FILTER_KEYS = {
    "limit",
    "not_senders",
    "not_types",
    "senders",
    "types",
    "unread_thread_notifications",
    "lazy_load_members",
    "include_redundant_members",
    "not_rooms",
    "rooms",
    "contains_url",
}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The events of a filter."""

    types: frozenset[str] | None = None
    limit: int = 10

    def allows(self, event: FakeEvent) -> bool:
        """Return whether an event passes."""
        return self.types is None or event.type in self.types


def parse_position(token: str, homeserver: Homeserver) -> int:
    """Return the position of a token. Raises ApiError."""
    number = token[1:]
    if token[:1] not in {"s", "t"} or not number.isdigit():
        raise ApiError(400, "M_INVALID_PARAM", "Invalid stream token")
    position = int(number)
    if not homeserver.oldest_position <= position <= homeserver.position:
        raise ApiError(400, "M_UNKNOWN_POS", "Unknown position")
    return position


def parse_filter(text: str | None) -> tuple[EventFilter, EventFilter]:
    """Return the filters of the timeline and the state. Raises ApiError."""
    document = _load(text or "{}", FILTER_KEYS)
    room = _check(document.get("room", {}), ROOM_FILTER_KEYS)
    return parse_event_filter(room.get("timeline")), parse_event_filter(room.get("state"))


def parse_event_filter(document: Any) -> EventFilter:
    """Return a filter of events. Raises ApiError."""
    if isinstance(document, str):
        document = _load(document, EVENT_FILTER_KEYS)
    checked = _check(document or {}, EVENT_FILTER_KEYS)
    types, limit = checked.get("types"), checked.get("limit", 10)
    if not isinstance(limit, int) or limit < 1:
        raise bad_json("limit must be positive")
    return EventFilter(frozenset(types) if types is not None else None, limit)


def _load(text: str, keys: set[str]) -> dict[str, Any]:
    try:
        return _check(json.loads(text), keys)
    except ValueError as error:
        raise ApiError(400, "M_NOT_JSON", "the filter is no JSON") from error


def _check(document: Any, keys: set[str]) -> dict[str, Any]:
    if not isinstance(document, dict) or document.keys() - keys:
        raise bad_json("unknown filter")
    return document


def build_response(
    homeserver: Homeserver,
    user_id: str,
    since: int | None,
    *,
    filters: tuple[EventFilter, EventFilter],
    is_full: bool,
) -> JsonObject:
    """Return the changes for a user since a position."""
    join: JsonObject = {}
    invite: JsonObject = {}
    leave: JsonObject = {}
    after = since if since is not None else 0
    for room in homeserver.rooms.values():
        changed = _membership_position(room, user_id)
        match room.membership(user_id):
            case "join":
                part = _joined(room, since, changed, filters=filters, is_full=is_full)
                if part is not None:
                    join[room.room_id] = part
            case "invite" if changed > after:
                events = _stripped(room, user_id)
                invite[room.room_id] = {"invite_state": {"events": list(events)}}
            case "leave" | "ban" if changed > after and since is not None:
                leave[room.room_id] = {"timeline": {"events": []}}
            case _:
                continue
    rooms: JsonObject = {"join": join, "invite": invite, "leave": leave}
    return {"next_batch": f"s{homeserver.position}", "rooms": rooms}


def _membership_position(room: FakeRoom, user_id: str) -> int:
    return max(
        (
            at
            for at, event in room.timeline
            if (event.type, event.state_key) == ("m.room.member", user_id)
        ),
        default=0,
    )


def _joined(
    room: FakeRoom,
    since: int | None,
    joined_at: int,
    *,
    filters: tuple[EventFilter, EventFilter],
    is_full: bool,
) -> JsonObject | None:
    timeline_filter, state_filter = filters
    is_new = since is None or joined_at > since
    after = 0 if is_new or since is None else since
    fresh = [(at, it) for at, it in room.timeline if at > after and timeline_filter.allows(it)]
    page = fresh[-timeline_filter.limit :]
    start = page[0][0] - 1 if page else after
    before = room.state_at(after if not is_new and not is_full else 0)
    state = [
        it
        for key, it in room.state_at(start if page or not is_full else float("inf")).items()
        if before.get(key) is not it and state_filter.allows(it)
    ]
    if not page and not state and not is_full:
        return None
    return {
        "timeline": {
            "events": [room.event_json(it) for _, it in page],
            "limited": len(page) < len(fresh),
            "prev_batch": f"t{start}",
        },
        "state": {"events": [it.as_json() for it in state]},
        "ephemeral": {"events": []},
        "account_data": {"events": []},
        "unread_notifications": {"highlight_count": 0, "notification_count": 0},
        "org.example.unknown": [1],
    }


def _stripped(room: FakeRoom, user_id: str) -> list[JsonObject]:
    own = room.state[("m.room.member", user_id)]
    inviter = room.state.get(("m.room.member", own.sender))
    encryption = [it for it in room.state.values() if it.type == "m.room.encryption"]
    shown = [own, *([inviter] if inviter is not None else []), *encryption]
    return [
        {
            "type": it.type,
            "sender": it.sender,
            "state_key": it.state_key,
            "content": it.content,
        }
        for it in shown
    ]


def build_page(
    room: FakeRoom, start: int, end: int, *, limit: int, event_filter: EventFilter
) -> JsonObject:
    """Return the newest events after `end` and up to `start`, newest first."""
    fresh = [(at, it) for at, it in room.timeline if end < at <= start and event_filter.allows(it)]
    page = fresh[-limit:]
    body: JsonObject = {
        "chunk": [room.event_json(it) for _, it in reversed(page)],
        "start": f"t{start}",
    }
    if len(page) < len(fresh):
        body["end"] = f"t{page[0][0] - 1}"
    return body
