"""The calls of the client-server API that the fake knows. `server` authenticates and calls them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.matrix.accounts import FakeAccount
from choir_testing.matrix.event_bodies import check_event
from choir_testing.matrix.faults import ApiError, bad_json, forbidden, not_found
from choir_testing.matrix.homeserver import Homeserver
from choir_testing.matrix.rooms import DEFAULT_STATE_POWER, FakeEvent, FakeRoom
from choir_testing.matrix.sync import (
    build_page,
    build_response,
    parse_event_filter,
    parse_filter,
    parse_position,
)

CREATE_ROOM_KEYS = {
    "creation_content",
    "initial_state",
    "invite",
    "invite_3pid",
    "is_direct",
    "name",
    "power_level_content_override",
    "preset",
    "room_alias_name",
    "room_version",
    "topic",
    "visibility",
}
PRESETS = {"private_chat", "public_chat", "trusted_private_chat"}
RECEIPT_TYPES = {"m.read", "m.read.private", "m.fully_read"}
MAX_LONG_POLL_S = 60.0


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A call with its arguments."""

    homeserver: Homeserver
    account: FakeAccount
    device_id: str
    ids: Mapping[str, str]
    query: Mapping[str, str]
    body: JsonObject

    @property
    def user_id(self) -> str:
        """The bot's id."""
        return self.account.user_id

    def joined_room(self) -> FakeRoom:
        """Return the room of the path. Raises ApiError 403 unless the bot has joined it."""
        room = self.homeserver.rooms.get(self.ids["room_id"])
        if room is None or room.membership(self.user_id) != "join":
            raise forbidden(f"User {self.user_id} not in room {self.ids['room_id']}")
        return room


async def whoami(request: ApiRequest) -> JsonObject:
    """Return the owner of the token."""
    return {"user_id": request.user_id, "device_id": request.device_id, "is_guest": False}


async def sync(request: ApiRequest) -> JsonObject:
    """Return what has changed, or wait for a change."""
    query, homeserver = request.query, request.homeserver
    since = parse_position(query["since"], homeserver) if "since" in query else None
    if since is not None and since > request.account.read_position:
        request.account.read_position = since
        homeserver.note_change()
    filters = parse_filter(query.get("filter"))
    is_full = query.get("full_state") == "true"
    timeout = query.get("timeout", "0")
    if not timeout.isdigit():
        raise ApiError(400, "M_INVALID_PARAM", "timeout must be an integer")
    wait_s = 0.0 if is_full else min(int(timeout) / 1000, MAX_LONG_POLL_S)
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        answer = build_response(
            homeserver, request.user_id, since, filters=filters, is_full=is_full
        )
        rooms = answer["rooms"]
        has_news = isinstance(rooms, dict) and any(rooms.values())
        left_s = deadline - asyncio.get_running_loop().time()
        if has_news or since is None or not await homeserver.wait_for_change(max(left_s, 0)):
            return answer


async def read_messages(request: ApiRequest) -> JsonObject:
    """Return a page of the history, newest first."""
    room, query = request.joined_room(), request.query
    if query.get("dir") != "b" or "from" not in query:
        raise ApiError(400, "M_MISSING_PARAM", "dir=b and from")
    start = parse_position(query["from"], request.homeserver)
    end = parse_position(query["to"], request.homeserver) if "to" in query else 0
    event_filter = parse_event_filter(query.get("filter"))
    limit = int(query.get("limit", "10"))
    return build_page(room, start, end, limit=limit, event_filter=event_filter)


async def read_event(request: ApiRequest) -> JsonObject:
    """Return an event."""
    room = request.joined_room()
    event = room.find(request.ids["event_id"])
    if event is None:
        raise not_found("Event not found.")
    return room.event_json(event)


async def read_state(request: ApiRequest) -> JsonObject:
    """Return the content of a state event."""
    event = request.joined_room().state.get((request.ids["type"], request.ids["state_key"]))
    if event is None:
        raise not_found("Event not found.")
    return event.content


async def set_state(request: ApiRequest) -> JsonObject:
    """Set a state event."""
    room = request.joined_room()
    if room.power(request.user_id) < DEFAULT_STATE_POWER:
        raise forbidden("You don't have permission to post that to the room.")
    event = FakeEvent(
        request.ids["type"], request.user_id, request.body, state_key=request.ids["state_key"]
    )
    check_event(room, event)
    request.homeserver.add(room, event)
    return {"event_id": event.event_id}


async def send_event(request: ApiRequest) -> JsonObject:
    """Send an event; a repeated transaction never gets here."""
    room = request.joined_room()
    request.account.count_send()
    event = FakeEvent(request.ids["type"], request.user_id, request.body)
    check_event(room, event)
    request.homeserver.add(room, event)
    return {"event_id": event.event_id}


async def create_room(request: ApiRequest) -> JsonObject:
    """Create a room."""
    body = request.body
    if body.keys() - CREATE_ROOM_KEYS:
        raise bad_json("unknown fields")
    if body.get("preset", "private_chat") not in PRESETS:
        raise bad_json("preset")
    invite, state = body.get("invite", []), body.get("initial_state", [])
    if not isinstance(invite, list) or not isinstance(state, list):
        raise bad_json("invite and initial_state")
    if request.homeserver.refuses_rooms:
        raise forbidden("You are not permitted to create rooms")
    room = request.homeserver.create_room(
        request.user_id,
        invite=tuple(map(str, invite)),
        initial_state=tuple(it for it in state if isinstance(it, dict)),
        is_trusted=body.get("preset") == "trusted_private_chat",
    )
    return {"room_id": room.room_id}


async def join(request: ApiRequest) -> JsonObject:
    """Join a room by an invitation."""
    room = request.homeserver.rooms.get(request.ids["room_id"])
    if room is None or room.membership(request.user_id) not in {"invite", "join"}:
        raise forbidden("You are not invited to this room.")
    if room.membership(request.user_id) == "invite":
        request.homeserver.set_member(room, request.user_id, request.user_id, "join")
    return {"room_id": room.room_id}


async def leave(request: ApiRequest) -> JsonObject:
    """Leave a room."""
    room = request.joined_room()
    request.homeserver.set_member(room, request.user_id, request.user_id, "leave")
    return {}


async def forget(request: ApiRequest) -> JsonObject:
    """Forget a room, which takes having left it."""
    room = request.homeserver.rooms.get(request.ids["room_id"])
    if room is None or room.membership(request.user_id) == "join":
        raise ApiError(400, "M_UNKNOWN", f"User {request.user_id} is in the room")
    return {}


async def set_typing(request: ApiRequest) -> JsonObject:
    """Show the bot typing, or no longer."""
    room, body = request.joined_room(), request.body
    if request.ids["user_id"] != request.user_id:
        raise forbidden("Cannot set another user's typing state")
    is_typing, timeout = body.get("typing"), body.get("timeout", 30_000)
    if not isinstance(is_typing, bool):
        raise bad_json("typing")
    if not isinstance(timeout, int) or isinstance(timeout, bool):
        raise bad_json("timeout")
    room.typing[request.user_id] = timeout if is_typing else 0
    request.homeserver.note_change()
    return {}


async def send_receipt(request: ApiRequest) -> JsonObject:
    """Mark an event as read."""
    room = request.joined_room()
    if request.ids["receipt_type"] not in RECEIPT_TYPES:
        raise ApiError(400, "M_INVALID_PARAM", "Receipt type must be one of the known ones")
    if room.find(request.ids["event_id"]) is None:
        raise not_found("Event not found.")
    request.account.receipts[room.room_id] = request.ids["event_id"]
    request.homeserver.note_change()
    return {}


async def read_media_config(request: ApiRequest) -> JsonObject:
    """Return the limits of uploads."""
    limit = request.homeserver.upload_bytes
    return {} if limit is None else {"m.upload.size": limit}


Operation = Callable[[ApiRequest], Awaitable[JsonObject]]
V3 = "/_matrix/client/v3"
ROOM = f"{V3}/rooms/{{room_id}}"
SEND_ROUTE = f"{ROOM}/send/{{type}}/{{transaction_id}}"
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", f"{V3}/account/whoami"): whoami,
    ("GET", f"{V3}/sync"): sync,
    ("POST", f"{V3}/createRoom"): create_room,
    ("POST", f"{V3}/join/{{room_id}}"): join,
    ("POST", f"{ROOM}/leave"): leave,
    ("POST", f"{ROOM}/forget"): forget,
    ("GET", f"{ROOM}/messages"): read_messages,
    ("GET", f"{ROOM}/event/{{event_id}}"): read_event,
    ("GET", f"{ROOM}/state/{{type}}/{{state_key}}"): read_state,
    ("PUT", f"{ROOM}/state/{{type}}/{{state_key}}"): set_state,
    ("PUT", SEND_ROUTE): send_event,
    ("PUT", f"{ROOM}/typing/{{user_id}}"): set_typing,
    ("POST", f"{ROOM}/receipt/{{receipt_type}}/{{event_id}}"): send_receipt,
    ("GET", "/_matrix/client/v1/media/config"): read_media_config,
}
"""By method and path."""
