"""All harnesses of the agent: offers them to core jobs, and tries each after a change of its settings."""

import asyncio
from typing import Protocol

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.money import MoneyReserver
from choir_agent.harnesses.calls import harness_tools, tool_prefix
from choir_agent.harnesses.connection import HarnessCommand
from choir_agent.harnesses.job import HarnessJob, MissingHarness
from choir_agent.harnesses.spending import HarnessSpending
from choir_agent.log.session_state import JobState
from choir_agent.settings import CurrentSettings, SettingsSource
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.errors import ChoirError
from choir_common.escape_text import escape_hidden
from choir_common.wire.rpc import MAX_HARNESSES, HarnessStatus

log = structlog.get_logger("choir.agent.harness")

MAX_DETAIL = 400


class HarnessListener(Protocol):
    """Receiver of changes of the harnesses' states."""

    def servers_changed(self) -> None: ...


class Harnesses:
    """The harnesses of this agent."""

    def __init__(self, registry: ToolRegistry, programs: ProgramRunner) -> None:
        self._registry, self._programs = registry, programs
        self._connectors: dict[str, HarnessCommand] = {}
        self._statuses: dict[str, HarnessStatus] = {}
        self._listener: HarnessListener | None = None
        self._changed = asyncio.Event()

    def report_to(self, listener: HarnessListener) -> None:
        """Tell this listener about changes from now on."""
        self._listener = listener

    def statuses(self) -> tuple[HarnessStatus, ...]:
        """Return the states of all harnesses, sorted by name."""
        names = sorted(self._statuses)[:MAX_HARNESSES]
        return tuple(self._statuses[name] for name in names)

    async def apply_settings(self, current: CurrentSettings) -> None:
        """Offer the harnesses of these settings; does not wait until they are tried."""
        connectors = {
            name: HarnessCommand(
                name,
                config,
                {secret: current.secret(secret) or "" for secret in config.secret_names()},
                self._programs,
            )
            for name, config in current.settings.harnesses.items()
        }
        for name in self._connectors.keys() - connectors.keys():
            self._registry.replace_tools(tool_prefix(name), [])
            del self._statuses[name]
        for name, connector in connectors.items():
            status = self._statuses.get(name)
            # One that failed is tried again: its program may have been installed.
            if self._connectors.get(name) != connector or (status and status.state == "failed"):
                self._registry.replace_tools(
                    tool_prefix(name), harness_tools(name, connector.config)
                )
                self._record(HarnessStatus(name=name, state="starting"))
        self._connectors = connectors
        self._changed.set()

    async def run(self) -> None:
        """Try each harness whose settings are new, one after the other, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for name, connector in [*self._connectors.items()]:
                status = self._statuses.get(name)
                if status is not None and status.state == "starting":
                    await self._try(connector)

    def connector(self, name: str) -> HarnessCommand | None:
        """Return what starts a harness, or None if the settings have no such."""
        return self._connectors.get(name)

    async def _try(self, connector: HarnessCommand) -> None:
        """Start a harness, make the handshake and end it; nothing of the agent's is sent."""
        name = connector.name
        try:
            async with connector.connect(f"test-{name}") as session:
                about = session.about
            status = HarnessStatus(
                name=name,
                state="ready",
                protocol=connector.config.protocol,
                protocol_version=about.protocol_version,
                about=about.name,
                capabilities=about.capabilities,
                can_resume=about.can_resume,
            )
        except ChoirError as error:
            detail = escape_hidden(error.message, keep="")[:MAX_DETAIL]
            status = HarnessStatus(
                name=name, state="failed", protocol=connector.config.protocol, detail=detail
            )
            log.warning("harness cannot be used", harness=name, reason=detail)
        except Exception as error:
            # Outermost frame of a try: a harness must not end the session.
            log.exception("harness failed", harness=name)
            status = HarnessStatus(name=name, state="failed", detail=type(error).__name__)
        if self._connectors.get(name) == connector:
            self._record(status)

    def _record(self, status: HarnessStatus) -> None:
        self._statuses[status.name] = status
        if self._listener is not None:
            self._listener.servers_changed()


class HarnessJobs:
    """Factory for the jobs of harnesses."""

    def __init__(
        self,
        harnesses: Harnesses,
        *,
        arbiter: Arbiter,
        memory: WorkingMemory,
        settings: SettingsSource,
        money: MoneyReserver,
    ) -> None:
        self._harnesses, self._money = harnesses, money
        self._arbiter, self._memory, self._settings = arbiter, memory, settings

    def for_job(self, job: JobState) -> HarnessJob | MissingHarness:
        """Return the harness that does a job, not started yet."""
        name = job.briefing.harness
        connector = self._harnesses.connector(name)
        if connector is None:
            return MissingHarness(name)
        return HarnessJob(
            job,
            connector=connector,
            spending=HarnessSpending(name, connector.config, job_id=job.turn_id, money=self._money),
            arbiter=self._arbiter,
            memory=self._memory,
            settings=self._settings,
        )
