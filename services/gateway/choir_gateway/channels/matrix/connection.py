"""The connection of one account: identification, and /sync from where the last process stopped.

The next batch is stored after control has everything of this one, so a crash repeats a batch; the events of
it that control has are in the state, too.
"""

import asyncio
import json
from typing import Protocol

import structlog
from pydantic import ValidationError

from choir_common.backoff import Backoff
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.matrix.api_call import describe_error, is_operators
from choir_gateway.channels.matrix.client import (
    NETWORK_ERRORS,
    MatrixClient,
    MatrixError,
    make_path,
)
from choir_gateway.channels.matrix.event_parser import (
    ENCRYPTED,
    MESSAGE_TYPES,
    REACTION,
    REDACTION,
)
from choir_gateway.channels.matrix.events import (
    JoinedRoom,
    MatrixEvent,
    RoomHistoryPage,
    SyncResponse,
)
from choir_gateway.channels.matrix.rooms import ENCRYPTION, MEMBER
from choir_gateway.channels.matrix.state_store import MatrixStateStore

log = structlog.get_logger("choir.gateway.matrix")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 30.0
# Nothing but a new token helps, and the channel is restarted with it.
FATAL_WAIT_S = 60.0
LONG_POLL_S = 30.0
READ_MARGIN_S = 30.0
PAGE = 100
MAX_PAGES = 100

TIMELINE_TYPES = [*MESSAGE_TYPES, REACTION, ENCRYPTED, REDACTION, MEMBER, ENCRYPTION]


class BatchReceiver(Protocol):
    """The receiver of what the connection yields."""

    async def begin(self, bot_id: str, device_id: str) -> None:
        """Take the account of the token."""
        ...

    async def take_batch(self, batch: SyncResponse, *, is_initial: bool) -> None:
        """Store a batch; `is_initial`: its messages are from before the first start."""
        ...


class SyncConnection:
    """Connection of one account."""

    def __init__(self, client: MatrixClient, store: MatrixStateStore, gateway: str) -> None:
        self._client = client
        self._store = store
        self._gateway = gateway
        self._backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        self._is_identified = False
        self._is_current = False
        self.error: str | None = "has not reached the homeserver yet"

    async def run(self, receiver: BatchReceiver) -> None:
        """Receive batches until cancelled."""
        while True:
            try:
                if not self._is_identified:
                    await self._identify(receiver)
                await self._follow_once(receiver)
                self._backoff.reset()
                self.error = None
            except MatrixError as error:
                await self._wait_after(error)
            except NETWORK_ERRORS as error:
                await self._wait_after(error)
            except Exception as error:  # outermost loop of an account: the others continue
                log.exception("batch not handled", gateway=self._gateway)
                await self._wait_after(error)

    async def _identify(self, receiver: BatchReceiver) -> None:
        answer = await self._client.call("GET", make_path("account", "whoami"))
        await receiver.begin(str(answer.get("user_id", "")), str(answer.get("device_id", "")))
        self._is_identified = True

    async def _follow_once(self, receiver: BatchReceiver) -> None:
        since = self._store.state.since
        batch = await self._sync(since)
        if since is not None:
            batch = await self._fill_gaps(batch, since)
        await receiver.take_batch(batch, is_initial=since is None)
        await self._store.move(batch.next_batch)
        self._is_current = True

    async def _sync(self, since: str | None) -> SyncResponse:
        query = {"filter": _make_filter(PAGE if since else 1)}
        timeout_s = LONG_POLL_S
        if since is not None:
            query["since"] = since
        if not self._is_current:
            # The members of all rooms, which a process does not know at its start.
            query["full_state"] = "true"
        if not self._is_current or self.error is not None:
            # A long poll would delay the news that the connection works again.
            timeout_s = 0.0
        query["timeout"] = str(int(timeout_s * 1000))
        answer = await self._client.call(
            "GET", make_path("sync"), query=query, read_timeout_s=timeout_s + READ_MARGIN_S
        )
        try:
            return SyncResponse.model_validate(answer)
        except ValidationError as error:
            raise MatrixError(200, "", _("the response to /sync has another shape")) from error

    async def _fill_gaps(self, batch: SyncResponse, since: str) -> SyncResponse:
        """Add the events that a limited timeline left out."""
        rooms = dict(batch.rooms.join)
        for room_id, room in batch.rooms.join.items():
            timeline = room.timeline
            if timeline.limited and timeline.prev_batch is not None:
                missed = await self._read_history(room_id, timeline.prev_batch, since)
                events = (*missed, *timeline.events)
                rooms[room_id] = _with_events(room, events)
        changes = batch.rooms.model_copy(update={"join": rooms})
        return batch.model_copy(update={"rooms": changes})

    async def _read_history(self, room_id: str, start: str, since: str) -> list[MatrixEvent]:
        """Return the events of a room after `since` and before `start`, oldest first."""
        path, events = make_path("rooms", room_id, "messages"), list[MatrixEvent]()
        types: JsonObject = {"types": list(TIMELINE_TYPES)}
        for _page in range(MAX_PAGES):
            query = {
                "dir": "b",
                "from": start,
                "to": since,
                "limit": str(PAGE),
                "filter": json.dumps(types),
            }
            page = RoomHistoryPage.model_validate(await self._client.call("GET", path, query=query))
            events += page.chunk
            if page.end is None or page.end == start:
                return events[::-1]
            start = page.end
        log.warning("history too long; older messages are not read", room=room_id)
        return events[::-1]

    async def _wait_after(self, error: Exception) -> None:
        self.error = describe_error(error)
        log.warning("cannot receive messages; retrying", gateway=self._gateway, error=self.error)
        pause_s = self._backoff.pause_s()
        if isinstance(error, MatrixError):
            if await self._is_batch_refused(error):
                return
            if is_operators(error):
                pause_s = FATAL_WAIT_S
            pause_s = max(pause_s, error.retry_after_s or 0.0)
        await asyncio.sleep(pause_s)

    async def _is_batch_refused(self, error: MatrixError) -> bool:
        """Start again at the present if the homeserver no longer knows the batch, as after a restore."""
        is_about_batch = error.status == 400 and error.code in {"M_UNKNOWN_POS", "M_INVALID_PARAM"}
        if not is_about_batch or self._store.state.since is None:
            return False
        log.error("position lost; messages of the downtime are not read", gateway=self._gateway)
        await self._store.move(None)
        self._is_current = False
        return True


def _with_events(room: JoinedRoom, events: tuple[MatrixEvent, ...]) -> JoinedRoom:
    timeline = room.timeline.model_copy(update={"events": events})
    return room.model_copy(update={"timeline": timeline})


def _make_filter(limit: int) -> str:
    nothing: JsonObject = {"types": []}
    timeline: JsonObject = {"types": list(TIMELINE_TYPES), "limit": limit}
    return json.dumps(
        {
            "presence": nothing,
            "account_data": nothing,
            "room": {
                "timeline": timeline,
                "state": {"types": [MEMBER, ENCRYPTION], "lazy_load_members": False},
                "ephemeral": nothing,
                "account_data": nothing,
            },
        }
    )
