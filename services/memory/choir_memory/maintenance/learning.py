"""Extract facts soon after turns were stored, between the maintenance passes.

The queue is in Postgres: any replica takes it up, and a crash loses nothing. Leases keep two replicas from
reading the same turns.
"""

import asyncio
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_memory.maintenance.tasks import LearningTasks, MaintenanceTasks
from choir_memory.schema.extraction_queue_store import DueExtraction, ExtractionQueueStore
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.usage.reporter import work_for

log = structlog.get_logger("choir.memory.maintenance")

MAX_AGENTS = 100
"""Maximum agents of one poll; the longest waiting come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningScheduler:
    """The loop of one replica that runs the extraction of agents with new turns."""

    extraction_queue: ExtractionQueueStore
    tasks: MaintenanceTasks
    leases: LeaseStore
    poll_s: float

    async def run(self) -> None:
        """Poll the queue every `poll_s` seconds until cancelled."""
        while True:
            try:
                await self.run_due()
            except ChoirError as error:
                log.warning("the extraction queue was not read", error=error.message)
            await asyncio.sleep(self.poll_s)

    async def run_due(self) -> int:
        """Run the agents that are due, one after the other; return how many were completed.

        After a failure the others wait for the next poll: the model's provider may limit the rate.
        """
        done = 0
        due = await self.extraction_queue.list_due(MAX_AGENTS)
        learning = await self.tasks.create_learning(self.leases) if due else None
        if learning is None:
            return 0
        for item in due:
            if not await self._run_agent(item, learning):
                break
            done += 1
        return done

    async def _run_agent(self, item: DueExtraction, learning: LearningTasks) -> bool:
        try:
            with work_for(item.agent_id):
                await learning.extraction.run_agent(item.agent_id)
                await learning.review.run_agent(item.agent_id)
            if not await learning.extraction.has_turns(item.agent_id):
                await self.extraction_queue.complete(item)
        except ChoirError as error:
            log.warning("extraction failed", agent_id=item.agent_id, error=error.message)
        except Exception:  # the outermost loop: the other agents' turns must still be read
            log.exception("extraction failed", agent_id=item.agent_id)
        else:
            return True
        await self.extraction_queue.postpone(item.agent_id)
        return False
