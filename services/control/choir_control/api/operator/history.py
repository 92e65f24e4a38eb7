"""`/v1/dms/{dm}/history`: the messages of a conversation, of both sides, in pages and by search."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from choir_common.errors import NotFound
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.web import ConversationHistory
from choir_control.api.operator.console import DmPath
from choir_control.configuration.current import ConfigService
from choir_control.conversations.history import ConversationHistoryReader, PageStart


def history_routes(history: ConversationHistoryReader, configuration: ConfigService) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/dms", tags=["console"])

    @router.get("/{dm}/history")
    async def read_history(
        dm: DmPath,
        before: Annotated[str | None, Query(max_length=64)] = None,
        after: Annotated[str | None, Query(max_length=64)] = None,
        at: Annotated[AwareDatetime | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        q: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")] = "",
    ) -> ConversationHistory:
        """Return a page of messages, oldest first; with `q` those that contain a text.

        The page has the newest messages `before` a place, or the oldest `after` one, or the oldest since a
        time, `at`; by default the newest of all.
        """
        if dm not in configuration.current.config.dms:
            raise NotFound(_("There is no DM {dm!r} in config.json.").format(dm=dm[:100]))
        return await history.read(dm, start=PageStart(before, after, at), limit=limit, query=q)

    return router
