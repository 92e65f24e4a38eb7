"""Replies to users who are not configured: a pairing code, where the gateway allows it; else silence.

This is the only thing that a channel does for a stranger. A user gets at most one reply in an hour, and all
users of a gateway together `MAX_AN_HOUR`, so that a flood costs neither memory nor messages. The text of a
stranger's message is not passed on. Control decides what is replied, and has the same limits in its database.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import structlog

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.messages import GatewayBinding
from choir_common.wire.pairing import RequestPairing, clean_user_name

log = structlog.get_logger("choir.gateway")

MAX_AN_HOUR = 20
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Stranger:
    """A user who is not configured and has written in a private chat."""

    user_id: str
    name: str
    """Chosen by the user."""
    language: str = ""
    """Of the user's app as a tag, where the channel says it."""


class StrangerNotes(Protocol):
    """The queue of a channel's notes to users."""

    def add(self, user_id: str, text: str) -> None:
        """Queue a note; returns at once."""
        ...


class StrangerReplies:
    """The replies of one gateway to strangers."""

    def __init__(
        self, gateway: GatewayBinding, *, control: ControlClient, notes: StrangerNotes
    ) -> None:
        self._gateway = gateway
        self._control = control
        self._notes = notes
        self._recent: dict[str, float] = {}
        """The users of the last hour, with the time at which each may get another reply."""
        self._waiting: asyncio.Queue[Stranger] = asyncio.Queue()

    def add(self, stranger: Stranger) -> bool:
        """Queue a reply and return True, or drop it."""
        users = self._gateway.channel.paired_users
        if not self._gateway.pairing or users is None or not users.fullmatch(stranger.user_id):
            return False
        now = asyncio.get_running_loop().time()
        self._recent = {user: until for user, until in self._recent.items() if until > now}
        if stranger.user_id in self._recent or len(self._recent) >= MAX_AN_HOUR:
            return False
        self._recent[stranger.user_id] = now + HOUR_S
        self._waiting.put_nowait(stranger)
        return True

    async def run(self) -> None:
        """Reply until cancelled."""
        while True:
            stranger = await self._waiting.get()
            try:
                await self._reply(stranger)
            except ChoirError as error:
                # The next message of this user is another attempt.
                self._recent.pop(stranger.user_id, None)
                log.info("no reply to a stranger", gateway=self._gateway.name, error=error.message)
            except Exception:  # outermost loop of the replies: continue with the next
                log.exception("no reply to a stranger", gateway=self._gateway.name)

    async def _reply(self, stranger: Stranger) -> None:
        request = RequestPairing(
            gateway=self._gateway.name,
            user_id=stranger.user_id,
            user_name=clean_user_name(stranger.name),
            language=stranger.language,
        )
        offer = await self._control.request_pairing(request)
        if offer.text is not None:
            self._notes.add(stranger.user_id, offer.text)
