"""`/v1/policy`: the rules on tool calls, grants, and what both say about one call."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from posixpath import normpath

from fastapi import APIRouter, Request

from choir_common.egress.addresses import can_be_public
from choir_common.grants import call_subject, covers
from choir_common.hosts import is_known_host
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.policy import PolicyCall, check_rules, decide, find_destinations, has_money_rules
from choir_common.wire.grants import GrantView
from choir_common.wire.operator import Page
from choir_common.wire.policy import (
    AllowedHost,
    ExplainCall,
    ExplainedCall,
    PolicyDecision,
    PolicyRule,
    Role,
)
from choir_control.agents.host_store import HostStore
from choir_control.api.operator.authentication import operator_label
from choir_control.approvals.grant_store import GrantStore
from choir_control.configuration.current import ConfigService
from choir_control.configuration.servers import known_hosts
from choir_control.money.costs import CostService


def policy_routes(
    configuration: ConfigService, grants: GrantStore, hosts: HostStore, costs: CostService
) -> APIRouter:
    """Return the router of the policy."""
    router = ServiceRouter(tags=["policy"])

    @router.get("/policy")
    async def list_rules() -> Page[PolicyRule]:
        """List the rules in the order in which they are tried."""
        return Page(items=list(configuration.current.config.policy))

    @router.get("/policy/grants")
    async def list_grants() -> Page[GrantView]:
        """List the yeses that cover later calls, oldest first."""
        return Page(items=await grants.list_active())

    @router.delete("/policy/grants/{grant_id}")
    async def revoke(grant_id: str, request: Request) -> GrantView:
        """Revoke a grant: later calls need a decision again. 404 when it is not in force."""
        return await grants.revoke(grant_id, operator_label(request))

    @router.get("/agents/{agent_id}/hosts")
    async def list_hosts(agent_id: str) -> Page[AllowedHost]:
        """List the hosts that people have named to a running agent or allowed, the newest first."""
        configuration.current.agent(agent_id)
        return Page(items=await hosts.list_allowed(agent_id))

    @router.post("/agents/{agent_id}/policy", openapi_extra=openapi_body(ExplainCall))
    async def explain(agent_id: str, request: Request) -> ExplainedCall:
        """Say what the policy decides on a call, and why; nothing is run.

        The manifest of an agent's own tool is not read: the tool is taken to have network access.
        """
        snapshot = configuration.current
        role = snapshot.role_for(agent_id, snapshot.agent(agent_id).defaults.dm)
        rules, spent = snapshot.config.policy, None
        if has_money_rules(rules):
            spent = (await costs.spent_today(agent_id)).cost_usd
        call = _policy_call(
            agent_id, role, await parse_request_body(request, ExplainCall), spent_usd=spent
        )
        allowed = (item.host for item in await hosts.list_allowed(agent_id))
        return _explain(
            call,
            rules,
            await grants.list_active(agent_id),
            (*known_hosts(snapshot.config), *allowed),
        )

    return router


def _policy_call(
    agent_id: str, role: Role, call: ExplainCall, *, spent_usd: Decimal | None
) -> PolicyCall:
    path = call.arguments.get("path")
    return PolicyCall(
        agent_id=agent_id,
        tool=call.tool,
        lane=call.lane,
        role=role,
        arguments=call.arguments,
        path=normpath(path) if isinstance(path, str) and path else "",
        destinations=find_destinations(
            call.tool, call.arguments, has_network=not call.tool.startswith("choir.")
        ),
        spent_usd=spent_usd,
    )


def _explain(
    call: PolicyCall,
    rules: Sequence[PolicyRule],
    grants: Sequence[GrantView],
    known_patterns: Sequence[str],
) -> ExplainedCall:
    now, destinations = datetime.now(UTC), call.destinations
    decision = decide(rules, call, now, needs_approval=False)
    public = filter(can_be_public, destinations.hosts)
    new_hosts = tuple(host for host in public if not is_known_host(host, known_patterns))
    if new_hosts and decision.action == "allow" and not decision.names_destinations:
        decision = PolicyDecision(
            action="ask", source="default", why=f"New to this agent: {', '.join(new_hosts)}."
        )
    subject = call_subject(call.agent_id, {"tool": call.tool, "input": call.arguments})
    return ExplainedCall(
        decision=decision,
        spent_usd=call.spent_usd,
        hosts=destinations.hosts,
        recipients=destinations.recipients,
        may_contact_others=destinations.is_open or destinations.is_unclear,
        rules=tuple(check_rules(rules, call, now)),
        new_hosts=new_hosts,
        grants=tuple(grant for grant in grants if covers(grant, subject, place=None, now=now)),
    )
