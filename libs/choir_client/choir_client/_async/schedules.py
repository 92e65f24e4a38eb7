"""Schedules: list, add, change, run, remove."""

from choir_client import operations
from choir_client._async.connection import AsyncConnection
from choir_client.operation import Operation
from choir_common.wire.schedules import NewSchedule, ScheduleEdit, ScheduleView

ScheduleList = list[ScheduleView]


class AsyncSchedules:
    """The schedules of a Choir."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self, agent_id: str | None = None) -> ScheduleList:
        """Return the schedules of an agent or of all, oldest first, without their runs."""
        params = {"limit": str(operations.PAGE_SIZE), **({"agent": agent_id} if agent_id else {})}
        views: ScheduleList = []
        while True:
            page = await self._connection.call(operations.LIST_SCHEDULES, params=params)
            views += page.items
            if page.next is None:
                return views
            params["cursor"] = page.next

    async def get(self, schedule_id: int) -> ScheduleView:
        """Return a schedule with its newest runs. Raises NotFound."""
        return await self._call(operations.SHOW_SCHEDULE, schedule_id)

    async def add(self, request: NewSchedule) -> ScheduleView:
        """Add a schedule. Raises InvalidRequest for an unclear time, NotFound for its agent."""
        return await self._connection.call(operations.ADD_SCHEDULE, body=request)

    async def update(self, schedule_id: int, edit: ScheduleEdit) -> ScheduleView:
        """Change a schedule. Raises NotFound, InvalidRequest, Conflict if it has ended."""
        names = {"schedule_id": schedule_id}
        return await self._connection.call(operations.UPDATE_SCHEDULE, names, body=edit)

    async def pause(self, schedule_id: int) -> ScheduleView:
        """Start no further runs until it is resumed. Raises NotFound, Conflict if it is not active."""
        return await self._call(operations.PAUSE_SCHEDULE, schedule_id)

    async def resume(self, schedule_id: int) -> ScheduleView:
        """Go on with the next due time. Raises NotFound, Conflict if it is not paused."""
        return await self._call(operations.RESUME_SCHEDULE, schedule_id)

    async def run(self, schedule_id: int) -> ScheduleView:
        """Start a run now, in addition to its times. Raises NotFound, Conflict if none can start."""
        return await self._call(operations.RUN_SCHEDULE, schedule_id)

    async def remove(self, schedule_id: int) -> ScheduleView:
        """Delete a schedule and its history; a run that has started goes on. Raises NotFound."""
        return await self._call(operations.REMOVE_SCHEDULE, schedule_id)

    async def _call(self, operation: Operation[ScheduleView], schedule_id: int) -> ScheduleView:
        return await self._connection.call(operation, {"schedule_id": schedule_id})
