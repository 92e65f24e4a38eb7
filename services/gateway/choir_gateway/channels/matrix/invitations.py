"""Invitations: those of configured users and to configured groups are accepted, all others stay open.

An unknown user who invites the bot to a direct chat may ask for a conversation, where the gateway allows it.
The answer comes in a room of the bot: it enters no room of a stranger, which may be large or encrypted.

They are in the state file, because /sync tells each of them once: a user may be configured later.
"""

import asyncio

import structlog

from choir_common.backoff import Backoff
from choir_common.errors import Unavailable
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.matrix.events import InvitedRoom, MatrixEvent, SyncResponse
from choir_gateway.channels.matrix.rooms import RoomDirectory, RoomFinder
from choir_gateway.channels.matrix.state_store import MatrixStateStore
from choir_gateway.channels.strangers import Stranger, StrangerReplies

log = structlog.get_logger("choir.gateway.matrix")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 60.0
# A room of another homeserver takes a while.
JOIN_TIMEOUT_S = 60.0


class InvitationAccepter:
    """Accepter of the invitations of one account."""

    def __init__(
        self,
        gateway: str,
        *,
        directory: RoomDirectory,
        rooms: RoomFinder,
        store: MatrixStateStore,
        strangers: StrangerReplies,
    ) -> None:
        self._gateway = gateway
        self._directory = directory
        self._rooms = rooms
        self._store = store
        self._strangers = strangers
        self._news = asyncio.Event()
        self._backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)

    async def take_batch(self, batch: SyncResponse, *, is_initial: bool) -> None:
        """Record the invitations of a batch, and look at all of them again.

        `is_initial`: they may be from long before the first start, so no stranger gets an answer.
        """
        invites = dict(self._store.state.invites)
        for room_id in (*batch.rooms.leave, *batch.rooms.join):
            invites.pop(room_id, None)
        for room_id, room in batch.rooms.invite.items():
            invitation = self._find_invitation(room)
            if invitation is None:
                continue
            if room_id not in invites and not is_initial:
                self._note_unknown(room_id, room, invitation)
            invites[room_id] = invitation.sender
        await self._store.replace_invites(invites)
        self._news.set()

    def _find_invitation(self, room: InvitedRoom) -> MatrixEvent | None:
        for event in room.invite_state.events:
            if event.state_key == self._directory.bot_id and event.membership == "invite":
                return event
        return None

    def _note_unknown(self, room_id: str, room: InvitedRoom, invitation: MatrixEvent) -> None:
        """Let a stranger ask for a conversation; log the id of a room that may become a group."""
        sender = invitation.sender
        if self._is_expected(room_id, sender):
            return
        log.info("invitation not accepted", gateway=self._gateway, room=room_id, sender=sender)
        if invitation.content.get("is_direct") is True:
            members = {it.state_key: it.display_name for it in room.invite_state.events}
            self._strangers.add(Stranger(sender, members.get(sender, "")))

    def _is_expected(self, room_id: str, sender: str) -> bool:
        # A group is named by its operator, so anybody there may bring the bot in.
        return self._directory.is_user(sender) or self._directory.is_group(room_id)

    async def run(self) -> None:
        """Accept invitations until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                is_done = await self._accept_all()
            except Exception:  # outermost loop of the invitations: messages must not stop
                log.exception("invitations not accepted", gateway=self._gateway)
                is_done = False
            if is_done:
                self._backoff.reset()
            else:
                await asyncio.sleep(self._backoff.pause_s())
                self._news.set()

    async def _accept_all(self) -> bool:
        """Join the rooms of configured users and groups; return False if one of them must be tried again."""
        is_done = True
        for room_id, sender in dict(self._store.state.invites).items():
            if not self._is_expected(room_id, sender):
                continue
            try:
                deadline = asyncio.get_running_loop().time() + JOIN_TIMEOUT_S
                await self._rooms.join(room_id, deadline)
            except Unavailable as error:
                log.info("invitation not accepted yet", room=room_id, error=error.message)
                is_done = False
                continue
            except RefusedError as refusal:
                log.warning("invitation not accepted", room=room_id, error=refusal.text)
            invites = {key: it for key, it in self._store.state.invites.items() if key != room_id}
            await self._store.replace_invites(invites)
        return is_done
