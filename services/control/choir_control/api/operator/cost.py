"""`/v1/cost`: what provider calls have cost."""

from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from choir_common.errors import InvalidRequest
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.money import CostGroup, CostReport
from choir_control.money.cost_store import CostQuery
from choir_control.money.costs import CostService

DEFAULT_DAYS = 30
Text = Annotated[str | None, Query(max_length=200)]


def cost_routes(costs: CostService) -> APIRouter:
    """Return the router of costs."""
    router = ServiceRouter(tags=["system"])

    @router.get("/cost")
    async def show_cost(
        by: CostGroup = "day",
        since: date | None = None,
        until: date | None = None,
        agent: Text = None,
        session: Text = None,
        job: Text = None,
        model: Text = None,
    ) -> CostReport:
        """Show the costs by day, month, agent, session, job, model or kind; of one session also by event.

        `since` and `until` are days of each agent's time zone, both included; default: the last 30 days.
        """
        last = until or costs.today()
        # No day is earlier than the first one that Python knows.
        first = since or last - min(timedelta(days=DEFAULT_DAYS - 1), last - date.min)
        if first > last:
            raise InvalidRequest(
                _("since ({first}) is later than until ({last}).").format(first=first, last=last)
            )
        if by == "event" and session is None:
            raise InvalidRequest(
                _("Costs by event are those of one session; name it in `session`.")
            )
        if any("\x00" in text for text in (agent, session, job, model) if text):
            raise InvalidRequest(_("A name contains the character NUL."))
        query = CostQuery(
            since=first, until=last, agent_id=agent, session_id=session, job_id=job, model=model
        )
        return await costs.report(by, query)

    return router
