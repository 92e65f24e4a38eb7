"""Upkeep of the schedules of wake-ups: one for each agent whose configuration has `wake_ups`."""

from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError, NotFound, OutcomeUnknown, Unavailable
from choir_common.wire.schedules import NewSchedule
from choir_control.configuration.current import ConfigService
from choir_control.conversations.schedules.records import CHOIR, Schedule
from choir_control.conversations.schedules.service import ScheduleService
from choir_control.conversations.schedules.store import ScheduleStore
from choir_control.conversations.schedules.wake_up_rules import WAKE_UP_TEXT

log = structlog.get_logger("choir.schedules")

INTERVAL_S = 20.0
"""Pause between two looks at the configuration."""


@dataclass(frozen=True, slots=True)
class _WakeUpPlan:
    """A schedule that the configuration asks for."""

    agent_id: str
    dm: str
    every: str
    zone: str

    def is_met_by(self, schedule: Schedule) -> bool:
        return schedule.state != "ended" and (
            schedule.agent_id,
            schedule.dm,
            schedule.value,
            schedule.zone,
        ) == (self.agent_id, self.dm, self.every, self.zone)


class WakeUpPlanner:
    """Keeps the schedules of wake-ups as the configuration says."""

    def __init__(
        self, service: ScheduleService, store: ScheduleStore, configuration: ConfigService
    ) -> None:
        self._service = service
        self._store = store
        self._configuration = configuration

    async def sync(self) -> None:
        """Create and remove schedules. A paused one stays paused while its configuration stays."""
        plans = {plan.agent_id: plan for plan in self._plans()}
        for schedule in await self._store.list_created_by(CHOIR):
            plan = plans.get(schedule.agent_id)
            if plan is not None and plan.is_met_by(schedule):
                del plans[schedule.agent_id]
            else:
                await self._remove(schedule.schedule_id)
        for plan in plans.values():
            await self._create(plan)

    def _plans(self) -> list[_WakeUpPlan]:
        snapshot = self._configuration.current
        return [
            _WakeUpPlan(
                agent_id,
                agent.defaults.dm,
                agent.wake_ups.every,
                snapshot.timezone_for(agent_id, agent.defaults.dm),
            )
            for agent_id, agent in snapshot.config.agents.items()
            if agent.wake_ups is not None
        ]

    async def _create(self, plan: _WakeUpPlan) -> None:
        request = NewSchedule(
            agent_id=plan.agent_id,
            kind="prompt",
            text=WAKE_UP_TEXT,
            timing="every",
            value=plan.every,
            zone=plan.zone,
            dm=plan.dm,
            catch_up="skip",
            words=f"agents.{plan.agent_id}.wake_ups of config.json",
        )
        try:
            await self._service.create(request, CHOIR, f"wake-up:{plan.agent_id}")
        except (Unavailable, OutcomeUnknown):
            raise
        except ChoirError as error:
            log.warning("wake-ups cannot start", agent=plan.agent_id, error=error.message)

    async def _remove(self, schedule_id: int) -> None:
        try:
            await self._service.remove(schedule_id)
        except NotFound:
            return
