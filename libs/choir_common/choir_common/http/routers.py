"""Routers whose routes FastAPI prepares once.

Used by the services' routes. `APIRoute` prepares its parameters and its answer when it is made, and once
more when its router has been included in an application, which is the only time that they are used. For
the 120 routes of choird the first one would take a sixth of a second at each start.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute


class IncludedRoute(APIRoute):
    """A route that is only served by an application that includes its router."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Keep what `APIRouter.add_api_route` passes on: FastAPI reads it when it includes the router."""
        vars(self).update(
            options, path=path, endpoint=endpoint, stream_item_type=None, form_limits={}
        )


class ServiceRouter(APIRouter):
    """A router of a service; include it in an application, because it serves nothing by itself."""

    def __init__(
        self,
        *,
        prefix: str = "",
        tags: Sequence[str] = (),
        include_in_schema: bool = True,
    ) -> None:
        names: list[str | Enum] = [*tags]
        super().__init__(
            prefix=prefix,
            tags=names,
            include_in_schema=include_in_schema,
            route_class=IncludedRoute,
        )
