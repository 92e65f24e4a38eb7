"""`/v1/schedules`: what is to happen at chosen times, and the runs."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.wire.operator import Page
from choir_common.wire.schedules import NewSchedule, ScheduleEdit, ScheduleView
from choir_control.conversations.schedules.service import ScheduleService

OPERATOR = "operator"


def schedule_routes(schedules: ScheduleService) -> APIRouter:
    """Return the router of schedules."""
    router = ServiceRouter(prefix="/schedules", tags=["schedules"])
    router.include_router(_state_routes(schedules))

    @router.get("")
    async def list_schedules(
        agent: Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")] = None,
        cursor: Annotated[int, Query(ge=0, lt=2**63)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Page[ScheduleView]:
        """List schedules, oldest first, without their runs."""
        # one row more than requested shows whether there is a next page
        views = await schedules.list_page(agent, cursor=cursor, limit=limit + 1)
        following = str(views[limit].schedule_id) if len(views) > limit else None
        return Page(items=views[:limit], next=following)

    @router.post("", status_code=201, openapi_extra=openapi_body(NewSchedule))
    async def create_schedule(request: Request) -> ScheduleView:
        """Create a schedule. 400 for times that cannot be understood, 429 above 1,000 of an agent."""
        return await schedules.create(await parse_request_body(request, NewSchedule), OPERATOR)

    @router.get("/{schedule_id}")
    async def show_schedule(schedule_id: int) -> ScheduleView:
        """Show a schedule with its newest runs."""
        return await schedules.show(schedule_id)

    @router.patch("/{schedule_id}", openapi_extra=openapi_body(ScheduleEdit))
    async def update_schedule(schedule_id: int, request: Request) -> ScheduleView:
        """Change text, time or rules. 400 for times that cannot be understood, 409 if it has ended."""
        edit = await parse_request_body(request, ScheduleEdit)
        return await schedules.edit(schedule_id, edit, OPERATOR)

    @router.delete("/{schedule_id}")
    async def remove_schedule(schedule_id: int) -> ScheduleView:
        """Delete a schedule and its history; a run that has started goes on."""
        return await schedules.remove(schedule_id)

    return router


def _state_routes(schedules: ScheduleService) -> APIRouter:
    router = ServiceRouter()

    @router.post("/{schedule_id}/pause")
    async def pause_schedule(schedule_id: int) -> ScheduleView:
        """Start no further runs until it is resumed. 409 if it is not active."""
        return await schedules.pause(schedule_id)

    @router.post("/{schedule_id}/resume")
    async def resume_schedule(schedule_id: int) -> ScheduleView:
        """Go on with the next due time. 409 if it is not paused."""
        return await schedules.resume(schedule_id)

    @router.post("/{schedule_id}/run")
    async def run_schedule(schedule_id: int) -> ScheduleView:
        """Start a run now, in addition to its times. 409 if none can start."""
        return await schedules.run_now(schedule_id)

    return router
