"""`/v1/people`: the people of config.json and their identities."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.wire.operator import Page
from choir_common.wire.pairing import DecidePairing, PairingView
from choir_common.wire.people import LinkIdentity, PersonView
from choir_control.api.operator.authentication import operator_label
from choir_control.conversations.pairing.service import PairingService
from choir_control.conversations.people.service import PersonLinks

Part = Annotated[str, Path(max_length=200, pattern=r"^[^\x00]+$")]


def people_routes(people: PersonLinks, pairing: PairingService) -> APIRouter:
    """Return the router of people."""
    router = ServiceRouter(prefix="/people", tags=["people"])
    # Before the routes with a name: a person called `pairings` cannot be shown.
    router.include_router(_pairing_routes(pairing))

    @router.get("")
    async def list_people() -> Page[PersonView]:
        """List the people of config.json, and paired users."""
        return Page(items=[*people.list_all(), *pairing.list_people()])

    @router.get("/{name}")
    async def show_person(name: Part) -> PersonView:
        """Show a person, or a paired user by the name of the conversation."""
        paired = None if people.has(name) else pairing.find_person(name)
        return paired or people.show(name)

    @router.post("/{name}/identities", status_code=201, openapi_extra=openapi_body(LinkIdentity))
    async def link_identity(name: Part, request: Request) -> PersonView:
        """Give a user of a gateway to a person; 409 if the user is somebody's already."""
        body = await parse_request_body(request, LinkIdentity)
        return await people.link(name, (body.gateway, body.user), operator_label(request))

    @router.delete("/{name}/identities/{gateway}/{user}")
    async def unlink_identity(name: Part, gateway: Part, user: Part) -> PersonView:
        """Take a linked identity from a person."""
        return await people.unlink(name, (gateway, user))

    return router


def _pairing_routes(pairing: PairingService) -> APIRouter:
    router = ServiceRouter(prefix="/pairings")

    @router.get("")
    async def list_pairings() -> Page[PairingView]:
        """List the unknown users who wait for a decision."""
        return Page(items=await pairing.list_waiting())

    @router.post("", openapi_extra=openapi_body(DecidePairing))
    async def decide_pairing(request: Request) -> PairingView:
        """Allow the user of a code to talk, or refuse it; 404 for a code that nobody has."""
        body = await parse_request_body(request, DecidePairing)
        return await pairing.decide(body.code, allow=body.allow, by=operator_label(request))

    @router.delete("/{dm}", status_code=204)
    async def unpair(dm: Part, request: Request) -> None:
        """Take the conversation of a paired user back."""
        await pairing.unpair(dm, by=operator_label(request))

    return router
