"""Service for schedules: create, list, edit, pause, resume, run now and remove."""

from dataclasses import dataclass

from choir_common.clock import Clock
from choir_common.errors import Conflict, InvalidRequest, NotFound, RateLimited
from choir_common.i18n import _
from choir_common.redactor import Redactor
from choir_common.wire.schedules import NewSchedule, ScheduleEdit, ScheduleView
from choir_control.configuration.current import ConfigService
from choir_control.conversations.schedules.editing import edit_schedule, rules_of, stored_value
from choir_control.conversations.schedules.planning import (
    first_start,
    plan,
    plan_manual_run,
    plan_pause,
    plan_resume,
)
from choir_control.conversations.schedules.records import (
    Schedule,
    ScheduleChange,
    ScheduleDraft,
)
from choir_control.conversations.schedules.run_store import RunStore
from choir_control.conversations.schedules.runner import ScheduleRunner
from choir_control.conversations.schedules.starter import RunStarter, blocked_reason
from choir_control.conversations.schedules.store import MAX_ACTIVE, ScheduleStore
from choir_control.conversations.schedules.texts import describe_timing
from choir_control.conversations.schedules.timing import next_due, parse_timing

ATTEMPTS = 5
SHOWN_RUNS = 20
SHOW_TRIES = 3


@dataclass(frozen=True, slots=True)
class ScheduleScope:
    """The schedules that a caller may see and change."""

    agent_id: str | None = None
    """None: those of all agents."""
    dm: str | None = None
    """None: those of all conversations."""

    def includes(self, schedule: Schedule) -> bool:
        """Return whether a schedule belongs to this scope."""
        return (self.agent_id in (None, schedule.agent_id)) and (self.dm in (None, schedule.dm))


EVERYTHING = ScheduleScope()


class ScheduleService:
    """Schedules, for operators, conversations and agents."""

    def __init__(
        self,
        store: ScheduleStore,
        *,
        runs: RunStore,
        starter: RunStarter,
        runner: ScheduleRunner,
        configuration: ConfigService,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._store = store
        self._runs = runs
        self._starter = starter
        self._runner = runner
        self._configuration = configuration
        self._redactor = redactor
        self._clock = clock

    async def create(
        self, request: NewSchedule, created_by: str, request_key: str | None = None
    ) -> ScheduleView:
        """Create a schedule; a repetition with the same `request_key` returns the first one.

        Raises NotFound for an unknown agent or conversation, InvalidRequest for times that cannot be
        understood, RateLimited if the agent has too many schedules.
        """
        draft = await self._draft(request, created_by, request_key)
        now = self._clock.now()
        first = next_due(draft.timing, now)
        if first is None:
            raise InvalidRequest(_("{value} has passed.").format(value=request.value[:40]))
        start_at = first_start(draft, first, now)
        schedule_id = await self._store.create(draft, first=first, start_at=start_at, now=now)
        if schedule_id is None:
            raise RateLimited(
                _(
                    "{agent} has {max_active} schedules; remove one first (choirctl schedule list)."
                ).format(agent=request.agent_id, max_active=MAX_ACTIVE)
            )
        self._runner.wake()
        return await self.show(schedule_id)

    async def list_all(self, scope: ScheduleScope = EVERYTHING) -> list[ScheduleView]:
        """Return the schedules, oldest first, without their runs."""
        schedules = await self._store.list_all(scope.agent_id, dm=scope.dm)
        return [_view(schedule) for schedule in schedules]

    async def list_page(
        self, agent_id: str | None, *, cursor: int, limit: int
    ) -> list[ScheduleView]:
        """Return up to `limit` schedules from the number `cursor` on, oldest first, without their runs."""
        schedules = await self._store.list_page(agent_id, cursor=cursor, limit=limit)
        return [_view(schedule) for schedule in schedules]

    async def show(self, schedule_id: int, scope: ScheduleScope = EVERYTHING) -> ScheduleView:
        """Return a schedule with its newest runs. Raises NotFound."""
        schedule = await self._find(schedule_id, scope)
        for _attempt in range(SHOW_TRIES):
            runs = await self._store.list_runs(schedule_id, SHOWN_RUNS)
            before, schedule = schedule, await self._find(schedule_id, scope)
            if schedule == before:
                break  # else a run has begun or ended meanwhile, which `runs` may lack
        return _view(schedule).model_copy(update={"runs": tuple(runs)})

    async def edit(
        self,
        schedule_id: int,
        edit: ScheduleEdit,
        by: str,
        scope: ScheduleScope = EVERYTHING,
    ) -> ScheduleView:
        """Change text, time or rules; `by` is who asks. What is due already runs as it was before.

        Raises NotFound, InvalidRequest, Conflict if it has ended.
        """
        clean = edit.model_copy(
            update={
                "text": None if edit.text is None else self._clean(edit.text),
                "words": self._clean(edit.words),
            }
        )
        for _attempt in range(ATTEMPTS):
            schedule = await self._find(schedule_id, scope)
            if await self._start_due(schedule):
                continue
            now = self._clock.now()
            if await self._store.edit(edit_schedule(schedule, clean, by=by, now=now), now):
                self._runner.wake()
                return await self.show(schedule_id)
        raise _is_busy(schedule_id)

    async def pause(self, schedule_id: int, scope: ScheduleScope = EVERYTHING) -> ScheduleView:
        """Start no further runs. Raises NotFound, Conflict if it is not active."""
        for _attempt in range(ATTEMPTS):
            schedule = await self._find(schedule_id, scope)
            if await self._apply(schedule, plan_pause(schedule)):
                return await self.show(schedule_id)
        raise _is_busy(schedule_id)

    async def resume(self, schedule_id: int, scope: ScheduleScope = EVERYTHING) -> ScheduleView:
        """Go on with the next due time. Raises NotFound, Conflict if it is not paused."""
        for _attempt in range(ATTEMPTS):
            schedule = await self._find(schedule_id, scope)
            if await self._apply(schedule, plan_resume(schedule, self._clock.now())):
                return await self.show(schedule_id)
        raise _is_busy(schedule_id)

    async def run_now(self, schedule_id: int, scope: ScheduleScope = EVERYTHING) -> ScheduleView:
        """Start a run now, in addition to its times. Raises NotFound, Conflict if none can start."""
        for _attempt in range(ATTEMPTS):
            schedule = await self._find(schedule_id, scope)
            blocked = await self._blocked_reason(schedule)
            change = plan_manual_run(schedule, self._clock.now(), blocked)
            if await self._apply(schedule, change):
                return await self.show(schedule_id)
        raise _is_busy(schedule_id)

    async def remove(self, schedule_id: int, scope: ScheduleScope = EVERYTHING) -> ScheduleView:
        """Delete a schedule and its history; a run that has started goes on. Raises NotFound."""
        schedule = await self._find(schedule_id, scope)
        if not await self._store.delete(schedule_id):
            raise _not_found(schedule_id)
        return _view(schedule)

    async def _find(self, schedule_id: int, scope: ScheduleScope) -> Schedule:
        schedule = await self._store.find(schedule_id) if 0 < schedule_id < 2**63 else None
        if schedule is None or not scope.includes(schedule):
            raise _not_found(schedule_id)
        return schedule

    async def _start_due(self, schedule: Schedule) -> bool:
        """Do what the worker would do now with a schedule; return whether it must be read again."""
        if schedule.state != "active":
            return False
        blocked = await self._blocked_reason(schedule)
        change = plan(schedule, self._clock.now(), blocked)
        if change is not None:
            await self._apply(schedule, change)
        return change is not None

    async def _blocked_reason(self, schedule: Schedule) -> str:
        live_dm = await self._runs.find_live_dm(schedule.agent_id, schedule.dm)
        return blocked_reason(schedule, live_dm)

    async def _apply(self, schedule: Schedule, change: ScheduleChange) -> bool:
        applied = await self._starter.apply(schedule, change, self._clock.now())
        self._runner.wake()
        return applied

    async def _draft(
        self, request: NewSchedule, created_by: str, request_key: str | None
    ) -> ScheduleDraft:
        if (request.kind == "skill") != (request.skill is not None):
            raise InvalidRequest(_("A schedule of the kind `skill`, and no other, names a skill."))
        snapshot = self._configuration.current
        agent = snapshot.agent(request.agent_id)
        dm = request.dm or await self._runs.find_live_dm(request.agent_id) or agent.defaults.dm
        if dm is None or snapshot.gateway_of(dm) is None:
            names = ", ".join(sorted(snapshot.config.dms)) or _("none")
            raise NotFound(
                _("There is no DM {dm!r} in config.json (it has {names}).").format(
                    dm=dm, names=names
                )
            )
        zone = request.zone or snapshot.timezone_for(request.agent_id, dm)
        timing = parse_timing(request.timing, request.value, zone, self._clock.now())
        return ScheduleDraft(
            agent_id=request.agent_id,
            dm=dm,
            kind=request.kind,
            text=self._clean(request.text),
            timing_kind=request.timing,
            value=stored_value(timing, request.value),
            zone=zone,
            timing=timing,
            rules=rules_of(request),
            created_by=created_by,
            words=self._clean(request.words),
            skill=request.skill or "",
            request_key=request_key,
            paused=request.paused,
        )

    def _clean(self, text: str) -> str:
        """Return the text with known secrets masked, and without NUL, which Postgres cannot store."""
        return self._redactor.redact(text.replace("\x00", ""))


def _view(schedule: Schedule) -> ScheduleView:
    return ScheduleView(
        schedule_id=schedule.schedule_id,
        agent_id=schedule.agent_id,
        dm=schedule.dm,
        kind=schedule.kind,
        text=schedule.text,
        skill=schedule.skill,
        timing=schedule.timing_kind,
        value=schedule.value,
        zone=schedule.zone,
        summary=describe_timing(schedule),
        state=schedule.state,
        note=schedule.note,
        next_at=schedule.next_due if schedule.state == "active" else None,
        catch_up=schedule.rules.catch_up,
        grace_s=int(schedule.rules.grace.total_seconds()),
        overlap=schedule.rules.overlap,
        jitter_s=int(schedule.rules.jitter.total_seconds()),
        failures=schedule.failures,
        max_failures=schedule.rules.max_failures,
        created_by=schedule.created_by,
        text_by=schedule.text_by,
        words=schedule.words,
        created_at=schedule.created_at,
    )


def _not_found(schedule_id: int) -> NotFound:
    return NotFound(
        _("There is no schedule {schedule_id}; list them with choirctl schedule list.").format(
            schedule_id=schedule_id
        )
    )


def _is_busy(schedule_id: int) -> Conflict:
    return Conflict(
        _("Schedule {schedule_id} is changing at this moment; try again.").format(
            schedule_id=schedule_id
        )
    )
