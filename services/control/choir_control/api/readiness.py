"""Readiness checks of control and the services it uses, for `/readyz` and `/v1/status`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import httpx2
from pydantic import ValidationError

from choir_common.bus.client import Bus
from choir_common.clients.browser import BrowserClient
from choir_common.clients.memory import MemoryClient
from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_common.wire.operator import HOST_LACKS, ComponentStatus, ReadinessReport
from choir_control.agents.egress_registry import EgressRegistry
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.log.archiving.store import ArchiveStore

CHECK_TIMEOUT_S = 2.0
GATEWAY_PARTS = ("nats", "control", "channels")
"""Parts of the gateway that are no channels."""
NO_RESPONSE = _("no response; it may be restarting")


class ReadinessChecks:
    """Checks of the components that control needs, and of those that it only works with."""

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        memory: MemoryClient,
        browser: BrowserClient,
        gateway: httpx2.AsyncClient,
        runtime: AgentRuntime,
        archives: ArchiveStore,
        egress: EgressRegistry,
    ) -> None:
        self._database = database
        self._bus = bus
        self._memory = memory
        self._browser = browser
        self._gateway = gateway
        self._runtime = runtime
        self._archives = archives
        self._egress = egress
        self._is_started = False

    def mark_started(self) -> None:
        """Report control as ready from now on."""
        self._is_started = True

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the status of the components that control cannot work without: its readiness."""
        detail = "" if self._is_started else _("starting")
        own = ComponentStatus(name="control", ok=self._is_started, detail=detail)
        others = await asyncio.gather(
            self.postgres_status(),
            _run_check("nats", self._check_bus),
            _run_check("runtime", self._check_runtime),
        )
        return (own, *others)

    async def all_statuses(self) -> Sequence[ComponentStatus]:
        """Return the status of every component."""
        needed, *others = await asyncio.gather(
            self.check(),
            _run_check("memory", self._check_memory),
            _run_check("gateway", self._check_gateway),
            _run_check("browser", self._check_browser),
            _run_check("egress", self._check_egress),
        )
        return (*needed, *others)

    async def channel_statuses(self) -> Sequence[ComponentStatus]:
        """Return the status of each channel that reports one; none if the gateway does not respond."""
        try:
            answer = await self._gateway.get("/readyz", timeout=CHECK_TIMEOUT_S)
            report = ReadinessReport.model_validate_json(answer.content)
        except (httpx2.HTTPError, ValidationError):
            return ()
        return [part for part in report.parts if part.name not in GATEWAY_PARTS]

    async def postgres_status(self) -> ComponentStatus:
        """Return whether Postgres responds and accepts writes."""
        return await _run_check("postgres", self._check_postgres)

    async def _check_bus(self) -> str:
        if self._bus.failure_reason:
            return f"!{self._bus.failure_reason}"
        await self._bus.ping(CHECK_TIMEOUT_S)
        return ""

    async def _check_postgres(self) -> str:
        failure = await self._database.write_failure()
        return f"!{failure}" if failure else ""

    async def _check_runtime(self) -> str:
        reason = await self._runtime.unavailable_reason()
        if reason:
            return f"!{reason}"
        parts = (
            [f"{HOST_LACKS}: {'; '.join(missing)}"]
            if (missing := self._runtime.limitations())
            else []
        )
        return "; ".join(part for part in (*parts, self._runtime.call_limits()) if part)

    async def _check_memory(self) -> str:
        # A degraded memory counts as ready: search without embeddings still works.
        status = await self._memory.status()
        building = status.building
        state: str = status.degraded or _("{embedder}, {queued} to embed").format(
            embedder=status.embedder, queued=status.queued
        )
        progress = ""
        if building is not None and building.documents is not None:
            progress = _("{embedder}: {done} of {documents} embedded again").format(
                embedder=building.embedder, done=building.done, documents=building.documents
            )
        backlog = await self._archives.describe_backlog()
        return "; ".join(filter(None, (state, progress, backlog, status.limitation)))

    async def _check_browser(self) -> str:
        status = await self._browser.status()
        return status.detail if status.ok else f"!{status.detail}"

    async def _check_egress(self) -> str:
        if not self._egress.is_enabled:
            return _(
                "off: agents connect to the network without a proxy, and hold their keys themselves "
                "(CHOIR_EGRESS_ENDPOINT)"
            )
        return f"!{self._egress.failure_reason}" if self._egress.failure_reason else ""

    async def _check_gateway(self) -> str:
        try:
            answer = await self._gateway.get("/livez", timeout=CHECK_TIMEOUT_S)
        except httpx2.HTTPError:
            return f"!{NO_RESPONSE}"
        return "" if answer.is_success else f"!HTTP {answer.status_code}"


class CompleteReadiness:
    """Readiness check that covers every component, for operators."""

    def __init__(self, checks: ReadinessChecks) -> None:
        self._checks = checks

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the status of every component."""
        return await self._checks.all_statuses()


async def _run_check(name: str, check: Callable[[], Awaitable[str]]) -> ComponentStatus:
    """Run one check with a timeout; a result that begins with `!` is a failure and its reason."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            detail = await check()
    except ChoirError as error:
        detail = f"!{error.message}"
    except TimeoutError:
        detail = "!" + _("no response within {seconds:g} s").format(seconds=CHECK_TIMEOUT_S)
    return ComponentStatus(
        name=name, ok=not detail.startswith("!"), detail=detail.removeprefix("!")
    )
