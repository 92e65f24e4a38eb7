"""Registry of the agents' browser contexts; runs actions in them.

`pages` runs the action, `egress` restricts its
network access.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

import structlog

from choir_browser.blobs.store import BlobStore
from choir_browser.contexts.engine_manager import EngineManager
from choir_browser.egress.proxy import EgressProxy
from choir_browser.limits.kill_policy import KillReasons, PageOwners
from choir_browser.limits.load_slots import LoadSlots
from choir_browser.pages.engine import Engine, EngineContext
from choir_common.egress.dialer import Dialer
from choir_common.errors import DeadlineExceeded, Forbidden, InvalidRequest, NotFound, Unavailable
from choir_common.wire.browser import Action, BrowseRequest, BrowseResponse, Download, OpenPage

log = structlog.get_logger("choir.browser.contexts")

# Extra time after the deadline, to close a tab that hangs.
CLEANUP_S = 5.0
_LOST = "The browser crashed and was restarted: all tabs and cookies are lost."


@dataclass(slots=True)
class AgentContext:
    """An agent's context while the engine runs; its saved state while it does not."""

    run_id: str
    """Identifies the start of the agent's process that owns this context."""
    context: EngineContext | None = None
    engine: Engine | None = None
    state: str | None = None
    lane_urls: dict[str, str] = field(default_factory=dict)
    """Each lane's URL when the engine stopped."""
    crash_unreported: bool = False
    """Whether the browser crashed between two calls and the agent was not yet notified."""
    active_requests: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class BrowserContexts:
    """The contexts of all agents."""

    def __init__(
        self,
        *,
        engine_manager: EngineManager,
        proxy: EgressProxy,
        dialer: Dialer,
        blobs: BlobStore,
        load_slots: LoadSlots,
        kill_reasons: KillReasons,
    ) -> None:
        self._engine_manager = engine_manager
        self._proxy = proxy
        self._dialer = dialer
        self.blobs = blobs
        self._load_slots = load_slots
        self._kill_reasons = kill_reasons
        self._agent_contexts: dict[str, AgentContext] = {}

    async def close(self, agent_id: str) -> None:
        """Destroy an agent's context: pages, cookies and its proxy credentials."""
        agent_context = self._agent_contexts.pop(agent_id, None)
        self._proxy.revoke_credentials(agent_id)
        self._load_slots.forget(agent_id)
        if agent_context is not None and agent_context.context is not None:
            await agent_context.context.close()

    async def browse(self, request: BrowseRequest) -> BrowseResponse:
        """Run one action in the agent's context and return the resulting page.

        Raises Forbidden for addresses that the guard refuses; InvalidRequest, NotFound and Conflict for
        actions that are impossible on this page; TooLarge; DeadlineExceeded; and Unavailable if the
        page, the browser or the server is down.
        """
        timeout_s = request.timeout_ms / 1000
        try:
            # Includes the wait for a slot.
            async with asyncio.timeout(timeout_s + CLEANUP_S):
                url = _address_of(request.action)
                if url is not None:
                    await self._check(url)
                async with self._load_slots.acquire(request.agent_id):
                    return await self._act(request, timeout_s)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{request.action.action} timed out after {timeout_s:g} s."
            ) from error

    async def page_processes(self) -> PageOwners:
        """Return the ids of the processes that show each agent's pages."""
        return {
            agent_id: await agent_context.context.renderer_pids()
            for agent_id, agent_context in list(self._agent_contexts.items())
            if agent_context.context is not None
        }

    async def stop_if_idle(self, idle: timedelta) -> None:
        """Stop the engine if it was unused for `idle`; agents keep their cookies."""
        self.blobs.delete_expired()
        busy = any(agent_context.active_requests for agent_context in self._agent_contexts.values())
        engine = self._engine_manager.running
        if busy or engine is None or self._engine_manager.idle_time() < idle:
            return
        for agent_context in self._agent_contexts.values():
            async with agent_context.lock:
                if agent_context.context is not None and agent_context.engine is engine:
                    agent_context.state = await agent_context.context.saved_state()
                    agent_context.lane_urls = agent_context.context.lane_urls()
                agent_context.context = None
        await self._engine_manager.stop()
        log.info("idle chromium stopped")

    async def _check(self, url: str) -> None:
        """Refuse early, with a precise message; the proxy checks every connection again."""
        try:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise InvalidRequest(f"{url[:200]} is not a URL.") from error
        if parts.scheme not in ("http", "https"):
            raise Forbidden(f"Only http and https pages can be opened, not `{parts.scheme}:`.")
        if not parts.hostname:
            raise InvalidRequest(f"{url[:200]} has no host.")
        await self._dialer.permitted_addresses(parts.hostname, port)

    async def _act(self, request: BrowseRequest, timeout_s: float) -> BrowseResponse:
        agent_context = await self._agent_context(request)
        agent_context.active_requests += 1
        self._engine_manager.mark_used()
        context: EngineContext | None = None
        try:
            context = await self._engine_context(request.agent_id, agent_context)
            # Clear refusals of earlier actions, so that only this action's can be reported.
            self._proxy.pop_refusal(request.agent_id)
            page = await context.run_action(request.lane, request.action, timeout_s)
            if agent_context.crash_unreported:
                page = page.model_copy(update={"notes": (_LOST, *page.notes)})
                agent_context.crash_unreported = False
            return page
        except InvalidRequest:
            # Over TLS the browser only sees that the tunnel failed; the proxy has the reason.
            refusal = self._proxy.pop_refusal(request.agent_id)
            if refusal is not None:
                raise refusal from None
            raise
        except NotFound as error:
            raise NotFound(error.message + _last_seen(agent_context, request)) from error
        except Unavailable as error:
            reason = (
                self._kill_reasons.pop_recent()
                if context is not None and not context.alive
                else None
            )
            raise (error if reason is None else Unavailable(reason)) from error
        finally:
            agent_context.active_requests -= 1
            self._engine_manager.mark_used()
            if context is not None and not context.alive:
                await self._discard(agent_context, context)

    async def _agent_context(self, request: BrowseRequest) -> AgentContext:
        """Return the agent's context; one of an earlier process is closed first if that was missed."""
        agent_context = self._agent_contexts.get(request.agent_id)
        if agent_context is not None and agent_context.run_id != request.life:
            await self.close(request.agent_id)
        return self._agent_contexts.setdefault(request.agent_id, AgentContext(request.life))

    async def _engine_context(self, agent_id: str, agent_context: AgentContext) -> EngineContext:
        async with agent_context.lock:
            engine = await self._engine_manager.get_engine()
            if agent_context.context is None or agent_context.engine is not engine:
                if agent_context.context is not None:
                    agent_context.crash_unreported, agent_context.lane_urls = (
                        True,
                        agent_context.context.lane_urls(),
                    )
                entry = self._proxy.issue_credentials(agent_id)
                agent_context.context = await engine.new_context(entry, agent_context.state)
                agent_context.engine = engine
            return agent_context.context

    async def _discard(self, agent_context: AgentContext, context: EngineContext) -> None:
        """Drop a context that has crashed; the next action creates another."""
        async with agent_context.lock:
            if agent_context.context is context:
                agent_context.context = None
                agent_context.crash_unreported, agent_context.lane_urls = True, context.lane_urls()
        await context.close()


def _address_of(action: Action) -> str | None:
    match action:
        case OpenPage(url=url) | Download(url=str() as url):
            return url
    return None


def _last_seen(agent_context: AgentContext, request: BrowseRequest) -> str:
    """Return a sentence with the lane's URL before the browser stopped; later calls return ""."""
    where = agent_context.lane_urls.pop(request.lane, None)
    return f" The browser was stopped since then; its last page was {where}." if where else ""
