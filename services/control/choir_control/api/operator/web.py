"""`/v1/web`: one-time links, sign-in, and the sessions of browsers."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from choir_common.errors import InvalidRequest
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _, choose_language
from choir_common.sentence_translation import translate_sentence
from choir_common.wire.operator import Page
from choir_common.wire.web import (
    MakeWebLink,
    OwnWebSession,
    SignIn,
    TranslatedSentences,
    TranslateSentences,
    WebLinkView,
    WebSessionView,
)
from choir_control import VERSION
from choir_control.api.operator.authentication import ConversationAccess
from choir_control.api.operator.web_cookies import WebCookies, check_path
from choir_control.api.operator.web_origins import WebOrigins
from choir_control.api.transports.listener import TcpListener
from choir_control.web.service import LINK_LIFETIME, WebSessionService
from choir_control.web.store import WebSession

Id = Annotated[str, Path(max_length=64, pattern=r"^web_[0-9a-f]+$")]


def web_routes(
    sessions: WebSessionService, origins: WebOrigins, listener: TcpListener
) -> APIRouter:
    """Return the router for operators."""
    router = ServiceRouter(prefix="/web", tags=["web"])

    @router.post("/links", status_code=201, openapi_extra=openapi_body(MakeWebLink))
    async def create_link(request: Request) -> WebLinkView:
        """Create a link that opens one session of the web page within 15 minutes."""
        body = await parse_request_body(request, MakeWebLink)
        token = await sessions.create_link(body.person)
        # In the fragment: browsers send it to nobody, so it is in no log.
        url = f"{origins.public_address(listener.address)}/web/#link={token}"
        return WebLinkView(
            url=url, person=body.person, expires_at=datetime.now(UTC) + LINK_LIFETIME
        )

    @router.get("/sessions")
    async def list_sessions() -> Page[WebSessionView]:
        """List the browsers that are signed in, the last used first."""
        return Page(items=[_view(session) for session in await sessions.list_live()])

    @router.delete("/sessions/{web_session_id}", status_code=HTTPStatus.NO_CONTENT)
    async def revoke_session(web_session_id: Id) -> None:
        """Sign a browser out; its open streams end."""
        await sessions.revoke(web_session_id)

    return router


def own_session_routes(sessions: WebSessionService, cookies: WebCookies) -> APIRouter:
    """Return the router of a browser's own session."""
    router = ServiceRouter(prefix="/web/session", tags=["web"])

    @router.get("")
    async def show_session(request: Request) -> OwnWebSession:
        """Show who is signed in."""
        access: ConversationAccess = request.state.access
        return _own(sessions, access.caller.person)

    @router.delete("", status_code=HTTPStatus.NO_CONTENT)
    async def sign_out(
        request: Request, path: Annotated[str, Query(max_length=200)] = "/"
    ) -> Response:
        """End the own session."""
        access: ConversationAccess = request.state.access
        if access.caller.web_session is None:
            raise InvalidRequest(_("Only a browser that signed in can sign out."))
        await sessions.revoke(access.caller.web_session.web_session_id)
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        cookies.remove(request, answer, path)
        return answer

    @router.post("/sentences", openapi_extra=openapi_body(TranslateSentences))
    async def translate_sentences(request: Request) -> TranslatedSentences:
        """Translate texts of Choir that the page shows, such as the state of a channel."""
        body = await parse_request_body(request, TranslateSentences)
        language = choose_language(body.language)
        # a text may take some milliseconds
        texts = await asyncio.to_thread(
            lambda: tuple(translate_sentence(text, language) for text in body.texts)
        )
        return TranslatedSentences(texts=texts)

    return router


def sign_in_routes(
    sessions: WebSessionService, cookies: WebCookies, origins: WebOrigins
) -> APIRouter:
    """Return the router for browsers that are not signed in yet."""
    router = ServiceRouter(prefix="/web/session", tags=["web"])

    @router.post("", status_code=201, openapi_extra=openapi_body(SignIn))
    async def sign_in(request: Request, response: Response) -> OwnWebSession:
        """Open a session by a one-time link or the operator token; the answer sets its cookie."""
        origins.check(request.headers, changing=True)
        body = await parse_request_body(request, SignIn)
        check_path(body.path)  # before a link is used up
        opened = await sessions.sign_in(
            link=body.link,
            token=body.token,
            address=request.client.host if request.client else "",
            user_agent=request.headers.get("user-agent", ""),
        )
        cookies.set(request, response, opened.token, body.path)
        return _own(sessions, opened.session.person, opened.key)

    return router


def _own(sessions: WebSessionService, person: str | None, key: str | None = None) -> OwnWebSession:
    return OwnWebSession(
        person=person,
        role=sessions.role_of(person),
        key=key,
        version=VERSION,
    )


def _view(session: WebSession) -> WebSessionView:
    return WebSessionView(
        web_session_id=session.web_session_id,
        person=session.person,
        user_agent=session.user_agent,
        created_at=session.created_at,
        last_used_at=session.last_used_at,
        expires_at=session.expires_at,
    )
