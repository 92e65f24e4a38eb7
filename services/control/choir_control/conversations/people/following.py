"""Conversations in which a person follows the own other ones: each answer there arrives here as a copy."""

import asyncio
from collections.abc import Collection

import structlog

from choir_common.errors import Forbidden
from choir_common.i18n import _
from choir_common.wire.api_clients import is_client_dm
from choir_control.configuration.current import ConfigService
from choir_control.configuration.people import PersonRegistry
from choir_control.conversations.people.follower_store import FollowerStore

log = structlog.get_logger("choir.people")


class Following:
    """Service that knows which conversations follow which."""

    def __init__(self, store: FollowerStore, *, configuration: ConfigService) -> None:
        self._store = store
        self._configuration = configuration
        self._dms: frozenset[str] = frozenset()
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Put the stored choices in force."""
        self._dms = await self._store.read_all()

    def is_on(self, dm: str) -> bool:
        """Return whether a conversation follows."""
        return dm in self._dms

    async def switch(self, dm: str, *, on: bool) -> None:
        """Start or end following in a conversation.

        Raises Forbidden to start it in a conversation that belongs to nobody or to several people.
        """
        if on and _owner(self._configuration.current.people, dm) is None:
            raise Forbidden(
                _(
                    "Only a private conversation of somebody in `people` of config.json can follow others: "
                    "what is said there is for that person alone. Nothing was changed."
                )
            )
        async with self._lock:
            await self._store.set(dm, on)
            await self.load()
        log.info("following switched", dm=dm, on=on)

    def followers_of(self, dm: str, dms: Collection[str]) -> tuple[str, ...]:
        """Return which of the conversations `dms` follow `dm`, sorted by name."""
        if not self._dms.intersection(dms):
            return ()
        people = self._configuration.current.people
        owner = _owner(people, dm)
        if owner is None:
            return ()
        others = self._dms.intersection(dms) - {dm}
        return tuple(sorted(other for other in others if _owner(people, other) == owner))


def _owner(people: PersonRegistry, dm: str) -> str | None:
    """Return the only person who reads a conversation, or None."""
    return None if people.is_group(dm) or is_client_dm(dm) else people.person_in(dm)
