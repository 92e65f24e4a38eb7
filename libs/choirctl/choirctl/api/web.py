"""Requests about the web page."""

from urllib.parse import quote

from choir_common.wire.operator import Page
from choir_common.wire.web import MakeWebLink, WebLinkView, WebSessionView
from choirctl.api.control import ControlClient, parse_response

_PATH = "/v1/web"


async def create_web_link(api: ControlClient, person: str | None) -> WebLinkView:
    """Create a one-time link, for a person or for the operator."""
    body = MakeWebLink(person=person)
    return parse_response(await api.send("POST", f"{_PATH}/links", body=body), WebLinkView)


async def list_web_sessions(api: ControlClient) -> list[WebSessionView]:
    """Return the browsers that are signed in."""
    return parse_response(await api.send("GET", f"{_PATH}/sessions"), Page[WebSessionView]).items


async def revoke_web_session(api: ControlClient, web_session_id: str) -> None:
    """Sign a browser out; raises NotFound."""
    await api.send("DELETE", f"{_PATH}/sessions/{quote(web_session_id, safe='')}")
