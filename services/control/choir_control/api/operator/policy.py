"""`/v1/policy`: the rules on tool calls, and what they say about one call."""

from datetime import UTC, datetime
from posixpath import normpath

from fastapi import APIRouter, Request

from choir_common.policy import PolicyCall, check_rules, decide, find_destinations
from choir_common.wire.operator import Page
from choir_common.wire.policy import ExplainCall, ExplainedCall, PolicyRule
from choir_control.api.body import openapi_body, parse_request_body
from choir_control.configuration.current import ConfigService


def policy_routes(configuration: ConfigService) -> APIRouter:
    """Return the router of the policy."""
    router = APIRouter(tags=["policy"])

    @router.get("/policy")
    async def list_rules() -> Page[PolicyRule]:
        """List the rules in the order in which they are tried."""
        return Page(items=list(configuration.current.config.policy))

    @router.post("/agents/{agent_id}/policy", openapi_extra=openapi_body(ExplainCall))
    async def explain(agent_id: str, request: Request) -> ExplainedCall:
        """Say what the policy decides on a call, and why; nothing is run.

        The manifest of an agent's own tool is not read: the tool is taken to have network access.
        """
        snapshot = configuration.current
        agent = snapshot.agent(agent_id)
        request_body = await parse_request_body(request, ExplainCall)
        destinations = find_destinations(
            request_body.tool,
            request_body.arguments,
            has_network=not request_body.tool.startswith("choir."),
        )
        path = request_body.arguments.get("path")
        call = PolicyCall(
            agent_id=agent_id,
            tool=request_body.tool,
            lane=request_body.lane,
            role=snapshot.role_in(agent.defaults.dm),
            arguments=request_body.arguments,
            path=normpath(path) if isinstance(path, str) and path else "",
            destinations=destinations,
        )
        rules, now = snapshot.config.policy, datetime.now(UTC)
        return ExplainedCall(
            decision=decide(rules, call, now, needs_approval=False),
            hosts=destinations.hosts,
            recipients=destinations.recipients,
            may_contact_others=destinations.is_open or destinations.is_unclear,
            rules=tuple(check_rules(rules, call, now)),
        )

    return router
