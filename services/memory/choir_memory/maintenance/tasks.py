"""Build one maintenance pass's tasks from the current configuration.

Called by `rounds`, built by `app`. The configuration is requested from control; while control is
unavailable, the last known one applies, at first the one from startup. Keys are never sent over the bus:
a model with another secret than at startup is used only after a restart of the service.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from choir_common.clock import Clock
from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database
from choir_common.wire.config import ModelConfig
from choir_common.wire.memory_settings import MemoryServiceConfig
from choir_memory.facts.extraction import ExtractionTask
from choir_memory.facts.reconciliation import EmbedQuery
from choir_memory.llm.model import LanguageModel
from choir_memory.maintenance.retention import ExpiryTask, RetentionTask
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.store import SpaceRegistry
from choir_memory.summaries.consolidation import ConsolidationTask
from choir_memory.summaries.summarizer import Summarizer

log = structlog.get_logger("choir.memory.errands")

MaintenanceTask = Callable[[str], Awaitable[object]]


@dataclass(slots=True)
class ConfiguredLanguageModel:
    """The service's language model as currently configured; `make` builds one with the key."""

    make: Callable[[ModelConfig], LanguageModel]
    key_of: str | None
    """Name of the secret that this process was given."""
    settings: ModelConfig | None = None
    model: LanguageModel | None = None

    async def take(self, wanted: ModelConfig | None) -> None:
        """Switch to the given model if this process has its key, otherwise keep the current one."""
        if wanted == self.settings:
            return
        if wanted is not None and wanted.secret not in (None, self.key_of):
            log.warning("the model's key comes when memory starts again", model=wanted.model)
            return
        await self.close()
        self.settings, self.model = wanted, self.make(wanted) if wanted else None
        log.info("memory's own model", model=wanted.model if wanted else None)

    async def close(self) -> None:
        """Close the model."""
        if self.model is not None:
            await self.model.close()
        self.model = None


@dataclass(slots=True)
class MaintenanceTasks:
    """Builder of the maintenance tasks that run for each agent."""

    database: Database
    spaces: SpaceRegistry
    leases: LeaseStore
    clock: Clock
    embed: EmbedQuery
    announce: Callable[[int], None]
    own: ConfiguredLanguageModel
    ask: Callable[[], Awaitable[MemoryServiceConfig]]
    orders: MemoryServiceConfig = field(default_factory=MemoryServiceConfig)
    """The last known configuration; at first the one from startup."""

    async def make(self) -> Sequence[MaintenanceTask]:
        """Return the tasks of a pass, in the order in which they run for each agent."""
        try:
            self.orders = await self.ask()
        except ChoirError as error:
            log.info("a round goes by what was configured before", reason=error.message)
        await self.own.take(self.orders.model)
        database, leases, announce = self.database, self.leases, self.announce
        model, kept = self.own.model, self.orders.retention
        digester = Summarizer(model)
        # Expired documents are deleted before they could be summarised, and summaries are written before
        # retention deletes their sources. A failed task skips the later ones: the model's task is last.
        errands: list[MaintenanceTask] = [
            ExpiryTask(database, self.clock).run_agent,
            ConsolidationTask(
                database, self.spaces, leases, digester, self.clock, announce, kept
            ).run_agent,
            RetentionTask(database, leases, self.clock, kept).run_agent,
        ]
        if model is not None:
            extraction = ExtractionTask(database, leases, model, self.embed, announce)
            errands.append(extraction.run_agent)
        return errands
