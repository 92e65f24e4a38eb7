"""Wiring of schedules and the worker that runs them."""

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.redactor import Redactor
from choir_control.configuration.current import ConfigService
from choir_control.conversations.schedules.agent_tools import AgentScheduleTools
from choir_control.conversations.schedules.run_store import RunStore
from choir_control.conversations.schedules.runner import ScheduleRunner
from choir_control.conversations.schedules.service import ScheduleService
from choir_control.conversations.schedules.starter import RunStarter
from choir_control.conversations.schedules.store import ScheduleStore
from choir_control.conversations.schedules.wake_up_planner import WakeUpPlanner
from choir_control.conversations.schedules.wake_up_rules import WakeUpRules, WakeUpStore
from choir_control.log.signals.notifier import OutboxRescanner
from choir_control.wiring.log import LogServices


class ScheduleServices:
    """The stores, the service, the worker and the agents' tools of schedules."""

    def __init__(
        self,
        *,
        database: Database,
        configuration: ConfigService,
        outbox: OutboxRescanner,
        log: LogServices,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        runs, store = RunStore(database), ScheduleStore(database)
        wake_ups = WakeUpRules(WakeUpStore(database), configuration)
        starter = RunStarter(
            runs,
            configuration=configuration,
            outbox=outbox,
            notifier=log.notifier,
            signal_locks=log.signal_locks,
            wake_ups=wake_ups,
        )
        self.runner = ScheduleRunner(runs, starter=starter, clock=clock)
        self.service = ScheduleService(
            store,
            runs=runs,
            starter=starter,
            runner=self.runner,
            configuration=configuration,
            redactor=redactor,
            clock=clock,
        )
        self.tools = AgentScheduleTools(self.service, store, clock)
        self.wake_ups = WakeUpPlanner(self.service, store, configuration)
