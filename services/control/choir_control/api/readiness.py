"""Readiness checks of control and the services it uses. Called by `/readyz` and `/v1/status`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import httpx2

from choir_common.bus.client import Bus
from choir_common.clients.browser import BrowserClient
from choir_common.clients.memory import MemoryClient
from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database
from choir_common.wire.operator import ComponentStatus

CHECK_TIMEOUT_S = 2.0


class ReadinessChecks:
    """Checks of the components that control needs, and of those that it only works with."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        memory: MemoryClient,
        browser: BrowserClient,
        gateway: httpx2.AsyncClient,
        runtime_trouble: Callable[[], Awaitable[str]],
        started: Callable[[], bool],
        archive_backlog: Callable[[], Awaitable[str]],
    ) -> None:
        self._database = database
        self._bus = bus
        self._memory = memory
        self._browser = browser
        self._gateway = gateway
        self._runtime = runtime_trouble
        self._started = started
        self._unarchived = archive_backlog

    async def required_statuses(self) -> Sequence[ComponentStatus]:
        """Return the status of the components that control cannot work without."""
        is_started = self._started()
        own = ComponentStatus(
            name="control", ok=is_started, detail="" if is_started else "it is still starting"
        )
        others = await asyncio.gather(
            self.postgres_status(),
            _ask("nats", self._ask_bus),
            _ask("runtime", self._ask_runtime),
        )
        return (own, *others)

    async def all_statuses(self) -> Sequence[ComponentStatus]:
        """Return the status of every component."""
        needed, *others = await asyncio.gather(
            self.required_statuses(),
            _ask("memory", self._ask_memory),
            _ask("gateway", self._ask_gateway),
            _ask("browser", self._ask_browser),
        )
        return (*needed, *others)

    async def postgres_status(self) -> ComponentStatus:
        """Return whether Postgres responds and accepts writes."""
        return await _ask("postgres", self._postgres)

    async def _ask_bus(self) -> str:
        if self._bus.failure_reason:
            return f"!{self._bus.failure_reason}"
        await self._bus.ping(CHECK_TIMEOUT_S)
        return ""

    async def _postgres(self) -> str:
        trouble = await self._database.write_failure()
        return f"!{trouble}" if trouble else ""

    async def _ask_runtime(self) -> str:
        trouble = await self._runtime()
        return f"!{trouble}" if trouble else ""

    async def _ask_memory(self) -> str:
        # A degraded memory counts as ready: search without embeddings still works.
        status = await self._memory.status()
        building = status.building
        if building is not None and building.documents is not None:
            new = f"; {building.embedder}: {building.done} of {building.documents} embedded anew"
        else:
            new = ""
        waiting = await self._unarchived()
        late = f"; {waiting}" if waiting else ""
        return (status.degraded or f"{status.embedder}, {status.queued} to embed") + new + late

    async def _ask_browser(self) -> str:
        found = await self._browser.status()
        return found.detail if found.ok else f"!{found.detail}"

    async def _ask_gateway(self) -> str:
        try:
            answer = await self._gateway.get("/livez", timeout=CHECK_TIMEOUT_S)
        except httpx2.HTTPError:
            return "!it does not answer; it may be restarting"
        return "" if answer.is_success else f"!HTTP {answer.status_code}"


async def _ask(name: str, question: Callable[[], Awaitable[str]]) -> ComponentStatus:
    """Run one check with a timeout; a result that begins with `!` is a failure and its reason."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            detail = await question()
    except ChoirError as error:
        detail = f"!{error.message}"
    except TimeoutError:
        detail = f"!it did not answer within {CHECK_TIMEOUT_S:g} s"
    return ComponentStatus(
        name=name, ok=not detail.startswith("!"), detail=detail.removeprefix("!")
    )
