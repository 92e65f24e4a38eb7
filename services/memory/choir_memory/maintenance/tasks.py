"""Run the maintenance tasks of all agents periodically, each pass by the current configuration."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from choir_common.clients.control import NatsMemorySettingsClient
from choir_common.clock import Clock
from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database
from choir_common.wire.config import MemoryServiceConfig
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.facts.extraction import ExtractionTask
from choir_memory.facts.held_review import HeldFactReview
from choir_memory.llm.model import ConfiguredLanguageModel
from choir_memory.maintenance.retention import ExpiryTask, RetentionTask
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.store import SpaceRegistry, SpaceStore
from choir_memory.summaries.consolidation import ConsolidationTask
from choir_memory.summaries.summarizer import Summarizer
from choir_memory.usage.reporter import work_for

log = structlog.get_logger("choir.memory.maintenance")


class MaintenanceTask(Protocol):
    """A task that runs for one agent at a time."""

    async def run_agent(self, agent_id: str) -> int:
        """Run the task; return how much was done."""
        ...


@dataclass(frozen=True, slots=True)
class LearningTasks:
    """The tasks that need the language model, in their order."""

    extraction: ExtractionTask
    review: HeldFactReview


@dataclass(slots=True, kw_only=True)
class MaintenanceTasks:
    """Factory of the tasks of a pass."""

    database: Database
    spaces: SpaceRegistry
    leases: LeaseStore
    clock: Clock
    embedders: EmbedderRegistry
    queue: EmbeddingQueue
    language_model: ConfiguredLanguageModel
    settings: NatsMemorySettingsClient
    config: MemoryServiceConfig = field(default_factory=MemoryServiceConfig)
    """The last known configuration; at first the one from startup."""

    async def create(self) -> Sequence[MaintenanceTask]:
        """Return the tasks of a pass, in the order in which they run for each agent."""
        learning = await self.create_learning(self.leases)
        model, retention = self.language_model.model, self.config.retention
        # Expired documents are deleted before they could be summarised, and summaries are written before
        # retention deletes their sources. A failed task skips the later ones: the model's task is last.
        tasks: list[MaintenanceTask] = [
            ExpiryTask(self.database, self.clock),
            ConsolidationTask(
                database=self.database,
                spaces=self.spaces,
                leases=self.leases,
                summarizer=Summarizer(model),
                clock=self.clock,
                queue=self.queue,
                retention=retention,
                prompts=self.config.prompts,
            ),
            RetentionTask(
                database=self.database,
                leases=self.leases,
                clock=self.clock,
                retention=retention,
            ),
        ]
        if learning is not None:
            tasks += [learning.extraction, learning.review]
        return tasks

    async def create_learning(self, leases: LeaseStore) -> LearningTasks | None:
        """Return the tasks that need the language model, or None without one.

        Each loop has its own `leases`: two loops of one replica must not read the same turns either.

        They follow the configuration that control has now, or the last known one while control is
        unavailable.
        """
        try:
            self.config = await self.settings.read()
        except ChoirError as error:
            log.info("maintenance uses the last known configuration", error=error.message)
        await self.language_model.configure(self.config)
        model = self.language_model.model
        if model is None:
            return None
        return LearningTasks(
            ExtractionTask(
                database=self.database,
                leases=leases,
                model=model,
                embedders=self.embedders,
                queue=self.queue,
                prompts=self.config.prompts,
            ),
            HeldFactReview(database=self.database, leases=leases, model=model),
        )


@dataclass(frozen=True, slots=True)
class MaintenanceScheduler:
    """The maintenance loop of one replica; leases and row locks keep replicas from doing the same work
    twice."""

    spaces: SpaceStore
    tasks: MaintenanceTasks
    interval_s: float

    async def run(self) -> None:
        """Run a pass every `interval_s` seconds until cancelled; failed tasks run again in the next."""
        while True:
            try:
                tasks = await self.tasks.create()
                for agent_id in await self.spaces.list_agents():
                    await self.run_tasks(agent_id, tasks)
            except ChoirError as error:
                log.warning("a maintenance pass was interrupted", error=error.message)
            await asyncio.sleep(self.interval_s)

    async def run_tasks(self, agent_id: str, tasks: Sequence[MaintenanceTask]) -> None:
        """Run the tasks for one agent; after a failure the later ones wait for the next pass."""
        try:
            for task in tasks:
                with work_for(agent_id):
                    await task.run_agent(agent_id)
        except ChoirError as error:
            log.warning("a maintenance task failed", agent_id=agent_id, error=error.message)
        except Exception:  # the outermost loop: the other agents' tasks must still run
            log.exception("a maintenance task failed", agent_id=agent_id)
