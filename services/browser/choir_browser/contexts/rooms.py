"""Registry of the agents' browser contexts; runs actions in them.

Called by doors.py to close a context and to browse. `pages` runs the action, `guard` restricts its
network access.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import structlog

from choir_browser.blobs.shelf import Shelf
from choir_browser.contexts.keeper import EngineKeeper
from choir_browser.guard.proxy import EgressProxy
from choir_browser.guard.resolve import Dialler
from choir_browser.limits.endings import Endings
from choir_browser.limits.rule import Owners
from choir_browser.limits.turns import Turns
from choir_browser.pages.port import Engine, Room
from choir_common.errors import BadInput, DeadlineExceeded, Forbidden, NotFound, Unavailable
from choir_common.wire.browsing import Action, BrowsedPage, BrowseRequest, Download, OpenPage

log = structlog.get_logger("choir.browser.contexts")

# Extra time after the deadline, to close a tab that hangs.
CLEANING_S = 5.0
_LOST = "The browser died and is another one now: tabs and cookies of before are gone."


@dataclass(slots=True)
class _Tenancy:
    """An agent's context while the engine runs; its saved state while it does not."""

    life: str
    """Identifies the start of the agent's process that owns this context."""
    room: Room | None = None
    engine: Engine | None = None
    state: str | None = None
    places: dict[str, str] = field(default_factory=dict)
    """Each lane's URL when the engine stopped."""
    lost: bool = False
    """Whether the browser crashed between two calls and the agent was not yet notified."""
    loads: int = 0
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Rooms:
    """The contexts of all agents."""

    def __init__(
        self,
        keeper: EngineKeeper,
        proxy: EgressProxy,
        dialler: Dialler,
        shelf: Shelf,
        turns: Turns,
        endings: Endings,
    ) -> None:
        self._keeper = keeper
        self._proxy = proxy
        self._dialler = dialler
        self.shelf = shelf
        self._turns = turns
        self._endings = endings
        self._tenancies: dict[str, _Tenancy] = {}

    async def close(self, agent_id: str) -> None:
        """Destroy an agent's context: pages, cookies and its proxy credentials."""
        tenancy = self._tenancies.pop(agent_id, None)
        self._proxy.withdraw(agent_id)
        self._turns.forget(agent_id)
        if tenancy is not None and tenancy.room is not None:
            await tenancy.room.close()

    async def browse(self, request: BrowseRequest) -> BrowsedPage:
        """Run one action in the agent's context and return the resulting page.

        Raises Forbidden for addresses that the guard refuses; BadInput, NotFound and Conflict for
        actions that are impossible on this page; TooLarge; DeadlineExceeded; and Unavailable if the
        page, the browser or the server is down.
        """
        timeout_s = request.timeout_ms / 1000
        try:
            # Includes the wait for a slot.
            async with asyncio.timeout(timeout_s + CLEANING_S):
                url = _address_of(request.action)
                if url is not None:
                    await self._check(url)
                async with self._turns.turn(request.agent_id):
                    return await self._act(request, timeout_s)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{request.action.action} did not get done within {timeout_s:g} s."
            ) from error

    async def owners(self) -> Owners:
        """Return the ids of the processes that show each agent's pages."""
        return {
            agent_id: await tenancy.room.renderers()
            for agent_id, tenancy in list(self._tenancies.items())
            if tenancy.room is not None
        }

    async def rest(self, idle: timedelta) -> None:
        """Stop the engine if it was unused for `idle`; agents keep their cookies."""
        self.shelf.sweep()
        busy = any(tenancy.loads for tenancy in self._tenancies.values())
        engine = self._keeper.running
        if busy or engine is None or self._keeper.idle_for() < idle:
            return
        for tenancy in self._tenancies.values():
            async with tenancy.changing:
                if tenancy.room is not None and tenancy.engine is engine:
                    tenancy.state = await tenancy.room.saved_state()
                    tenancy.places = tenancy.room.places()
                tenancy.room = None
        await self._keeper.end()
        log.info("chromium ended after idling")

    async def _check(self, url: str) -> None:
        """Refuse early, with a precise message; the proxy checks every connection again."""
        try:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise BadInput(f"{url[:200]} is no URL.") from error
        if parts.scheme not in ("http", "https"):
            raise Forbidden(f"Only http and https pages can be opened, not `{parts.scheme}:`.")
        if not parts.hostname:
            raise BadInput(f"{url[:200]} names no host.")
        await self._dialler.permitted(parts.hostname, port)

    async def _act(self, request: BrowseRequest, timeout_s: float) -> BrowsedPage:
        tenancy = await self._place(request)
        tenancy.loads += 1
        self._keeper.touch()
        room: Room | None = None
        try:
            room = await self._room(request.agent_id, tenancy)
            # Clear refusals of earlier actions, so that only this action's can be reported.
            self._proxy.take_refusal(request.agent_id)
            page = await room.act(request.lane, request.action, timeout_s)
            if tenancy.lost:
                page = page.model_copy(update={"notes": (_LOST, *page.notes)})
                tenancy.lost = False
            return page
        except BadInput:
            # Over TLS the browser only sees that the tunnel failed; the proxy has the reason.
            refusal = self._proxy.take_refusal(request.agent_id)
            if refusal is not None:
                raise refusal from None
            raise
        except NotFound as error:
            raise NotFound(error.message + _last_seen(tenancy, request)) from error
        except Unavailable as error:
            why = self._endings.recent() if room is not None and not room.alive else None
            raise (error if why is None else Unavailable(why)) from error
        finally:
            tenancy.loads -= 1
            self._keeper.touch()
            if room is not None and not room.alive:
                await self._discard(tenancy, room)

    async def _place(self, request: BrowseRequest) -> _Tenancy:
        """Return the agent's context; one of an earlier process is closed first if that was missed."""
        held = self._tenancies.get(request.agent_id)
        if held is not None and held.life != request.life:
            await self.close(request.agent_id)
        return self._tenancies.setdefault(request.agent_id, _Tenancy(request.life))

    async def _room(self, agent_id: str, tenancy: _Tenancy) -> Room:
        async with tenancy.changing:
            engine = await self._keeper.engine()
            if tenancy.room is None or tenancy.engine is not engine:
                if tenancy.room is not None:
                    tenancy.lost, tenancy.places = True, tenancy.room.places()
                entry = self._proxy.issue(agent_id)
                tenancy.room = await engine.new_room(entry, tenancy.state)
                tenancy.engine = engine
            return tenancy.room

    async def _discard(self, tenancy: _Tenancy, room: Room) -> None:
        """Drop a context that has crashed; the next action creates another."""
        async with tenancy.changing:
            if tenancy.room is room:
                tenancy.room = None
                tenancy.lost, tenancy.places = True, room.places()
        await room.close()


def _address_of(action: Action) -> str | None:
    match action:
        case OpenPage(url=url) | Download(url=str() as url):
            return url
    return None


def _last_seen(tenancy: _Tenancy, request: BrowseRequest) -> str:
    """Return a sentence with the lane's URL before the browser stopped; later calls return ""."""
    where = tenancy.places.pop(request.lane, None)
    return f" The browser was ended since; it was at {where}." if where else ""
