"""The tools `choir.schedule.*`: an agent's schedules in the conversation that it serves.

Above some limits a person must agree. The agent's arbiter asks about each call with `ask_user`; calls above a
limit without it are refused here.
"""

from datetime import timedelta

from choir_common.clock import Clock
from choir_common.errors import Forbidden
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.messages import Empty
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.schedules import (
    MAX_SCHEDULE_TEXT,
    NewSchedule,
    ScheduleByAgent,
    ScheduleEdit,
    ScheduleRemoval,
    ScheduleSummaries,
    ScheduleSummary,
    ScheduleUpdate,
    ScheduleView,
    TimingKind,
)
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.conversations.schedules.records import AGENT
from choir_control.conversations.schedules.service import ScheduleScope, ScheduleService
from choir_control.conversations.schedules.store import RequestSource, ScheduleStore
from choir_control.conversations.schedules.texts import format_moment
from choir_control.conversations.schedules.timing import parse_timing, shortest_gap
from choir_control.log.leases.store import Lease

MAX_OWN = 10
"""Active and paused schedules that an agent creates without a person's consent."""
MIN_GAP = timedelta(hours=1)
"""Time between two runs of a schedule that an agent creates without a person's consent."""
ASK = "If the user wants it, repeat the call with ask_user true: a person is asked."


class AgentScheduleTools:
    """Handlers of the tools; agent and conversation always come from the lease."""

    def __init__(self, service: ScheduleService, store: ScheduleStore, clock: Clock) -> None:
        self._service = service
        self._store = store
        self._clock = clock
        self._locks = KeyedLock()

    async def create(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Create a schedule, once per call. Raises Forbidden above a limit."""
        request = parse_tool_input(ScheduleByAgent, arguments)
        key = f"{lease.session_id}:{call_id}"
        # Calls at the same time must not exceed the number together.
        async with self._locks.of(lease.agent_id):
            source = await self._store.find_source(request.inbox_id, lease.dm)
            if not request.ask_user:
                _check_source(source)
                self._check_rate(request.timing, request.value)
                await self._check_number(lease, key)
            view = await self._service.create(
                NewSchedule(
                    agent_id=lease.agent_id,
                    kind=request.kind,
                    text=request.text,
                    skill=request.skill,
                    timing=request.timing,
                    value=request.value,
                    zone=request.zone,
                    dm=lease.dm,
                    catch_up=request.catch_up,
                    overlap=request.overlap,
                    words=source.words[:MAX_SCHEDULE_TEXT],
                ),
                _author(lease),
                key,
            )
        return _summary(view)

    async def list_all(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return the schedules of the conversation that have not ended."""
        parse_tool_input(Empty, arguments)
        views = await self._service.list_all(_scope(lease))
        return ScheduleSummaries(
            schedules=tuple(_summary(view) for view in views if view.state != "ended")
        )

    async def update(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Change, pause or resume a schedule. Raises NotFound, Conflict if it has ended, Forbidden."""
        request = parse_tool_input(ScheduleUpdate, arguments)
        view = await self._find(lease, request)
        edit = ScheduleEdit(
            text=request.text,
            timing=request.timing,
            value=request.value,
            zone=request.zone,
            catch_up=request.catch_up,
            overlap=request.overlap,
        )
        if not edit.is_empty or request.state is None:
            source = await self._store.find_source(request.inbox_id, lease.dm)
            if not request.ask_user:
                _check_source(source)
                if request.value is not None:
                    self._check_rate(request.timing or view.timing, request.value)
            request_edit = edit.model_copy(update={"words": source.words[:MAX_SCHEDULE_TEXT]})
            scope = _scope(lease)
            view = await self._service.edit(
                request.schedule_id, request_edit, _author(lease), scope
            )
        if request.state is not None and view.state != request.state:
            is_pause = request.state == "paused"
            apply = self._service.pause if is_pause else self._service.resume
            view = await apply(request.schedule_id, _scope(lease))
        return _summary(view)

    async def delete(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Delete a schedule. Raises NotFound, Forbidden."""
        request = parse_tool_input(ScheduleRemoval, arguments)
        await self._find(lease, request)
        view = await self._service.remove(request.schedule_id, _scope(lease))
        return _summary(view).model_copy(update={"state": "deleted", "next": ""})

    async def _find(self, lease: Lease, request: ScheduleUpdate | ScheduleRemoval) -> ScheduleView:
        view = await self._service.show(request.schedule_id, _scope(lease))
        if not (_is_by_agent(view) or request.ask_user):
            raise Forbidden(
                f"The user created or changed schedule {view.schedule_id}, not you. {ASK}"
            )
        return view

    def _check_rate(self, kind: TimingKind, value: str) -> None:
        if kind not in ("every", "cron"):
            return
        now = self._clock.now()
        gap = shortest_gap(parse_timing(kind, value, "UTC", now), now)
        if gap is not None and gap < MIN_GAP:
            raise Forbidden(f"It would run more often than once an hour. {ASK}")

    async def _check_number(self, lease: Lease, key: str) -> None:
        count = await self._store.count_of_agent(lease.agent_id, without_key=key)
        if count >= MAX_OWN:
            raise Forbidden(f"You have {count} schedules already. Delete one. {ASK}")


def _check_source(source: RequestSource) -> None:
    if source.is_unattended:
        raise Forbidden(
            "You are not answering the user: reports and runs of your own schedules may not create or "
            f"change schedules. {ASK}"
        )


def _author(lease: Lease) -> str:
    return f"{AGENT}{lease.agent_id}"


def _scope(lease: Lease) -> ScheduleScope:
    return ScheduleScope(lease.agent_id, lease.dm)


def _is_by_agent(view: ScheduleView) -> bool:
    """Return whether no person has created the schedule or written its present text."""
    return view.created_by.startswith(AGENT) and view.text_by.startswith(AGENT)


def _summary(view: ScheduleView) -> ScheduleSummary:
    return ScheduleSummary(
        schedule_id=view.schedule_id,
        kind=view.kind,
        text=view.text,
        when=view.summary,
        state=view.state,
        next="" if view.next_at is None else format_moment(view.next_at, view.zone),
        note=view.note,
        by_agent=_is_by_agent(view),
    )
