"""Storage of a planned change with everything that its runs send, and the delivery of that."""

from dataclasses import replace
from datetime import datetime

from choir_common.i18n import _, translate
from choir_common.ids import new_id
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import UserMessageSignal
from choir_control.configuration.current import ConfigService
from choir_control.conversations.schedules.records import RunChange, Schedule, ScheduleChange
from choir_control.conversations.schedules.run_store import RunStore, StartedRun
from choir_control.conversations.schedules.texts import reminder_text, wake_up_summary
from choir_control.conversations.schedules.wake_up_rules import WakeUpRules
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier, OutboxRescanner


class RunStarter:
    """Applies changes of schedules."""

    def __init__(
        self,
        store: RunStore,
        *,
        configuration: ConfigService,
        outbox: OutboxRescanner,
        notifier: Notifier,
        signal_locks: SignalLocks,
        wake_ups: WakeUpRules,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._outbox = outbox
        self._notifier = notifier
        self._signal_locks = signal_locks
        self._wake_ups = wake_ups

    async def apply(self, schedule: Schedule, change: ScheduleChange, now: datetime) -> bool:
        """Store a change and its effects; return False if the schedule has changed meanwhile."""
        gateway = self._configuration.current.gateway_of(schedule.dm)
        if gateway is None:
            change = _without_conversation(schedule, change)
        text = schedule.text
        if schedule.is_wake_up:
            change = await self._wake_ups.limit(schedule, change, now)
            text = await self._wake_ups.complete_text(schedule)
        people = self._configuration.current.people
        language = people.language_in(schedule.dm)
        change = replace(change, notice=translate(change.notice, language))
        runs = [
            _started_run(schedule, run, now, text=text, language=language) for run in change.runs
        ]
        # Signals of a DM must be committed in the order of their numbers.
        async with self._signal_locks.of(schedule.dm):
            applied = await self._store.apply(
                schedule, change, runs=runs, gateway=gateway or "", now=now
            )
        if applied:
            self._outbox.rescan(schedule.dm)
            self._notifier.notify(schedule.dm)
        return applied


def blocked_reason(schedule: Schedule, live_dm: str | None) -> str:
    """Return why the agent cannot take up a run now; empty if it can."""
    if live_dm is None:
        return _("{agent} is not running").format(agent=schedule.agent_id)
    if live_dm != schedule.dm:
        return _("{agent} serves the conversation {live_dm} now, not {dm}").format(
            agent=schedule.agent_id, live_dm=live_dm, dm=schedule.dm
        )
    return ""


def _without_conversation(schedule: Schedule, change: ScheduleChange) -> ScheduleChange:
    """Return the change with its starts as failures, because their conversation does not exist any more."""
    reason = _("there is no conversation {dm!r} in config.json").format(dm=schedule.dm)
    failed = [run for run in change.runs if run.state == "running"]
    runs = tuple(
        replace(run, state="failed", detail=reason) if run in failed else run for run in change.runs
    )
    failures = schedule.failures + len(failed) if failed else change.failures
    return replace(change, runs=runs, notice="", failures=failures)


def _started_run(
    schedule: Schedule, run: RunChange, now: datetime, *, text: str, language: str
) -> StartedRun:
    run_id = run.run_id or new_id("run")
    words, signal = "", None
    if run.state == "running" and schedule.kind == "remind":
        words = translate(reminder_text(schedule, run.due_at, is_late=run.is_late), language)
    elif run.state == "running":
        words = text
        summary = wake_up_summary(schedule, run.due_at, is_late=run.is_late)
        signal = UserMessageSignal(
            inbox_id=run_id,
            dm=schedule.dm,
            text=words,
            sent_at=now,
            wake_up=WakeUp(
                schedule_id=schedule.schedule_id,
                summary=summary,
                by_agent=schedule.is_by_agent,
                as_job=schedule.starts_job,
                skill=schedule.skill,
                quiet=schedule.is_wake_up,
            ),
        ).model_dump_json()
    return StartedRun(run_id, run.due_at, run.state, run.detail, words, signal)
