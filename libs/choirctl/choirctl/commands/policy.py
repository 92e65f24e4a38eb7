"""Commands `choirctl policy list|explain|grants|hosts|revoke`."""

import asyncio
from typing import Annotated

import orjson
import typer

from choir_common.errors import InvalidRequest
from choir_common.grants import describe_grant
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.grants import GrantView
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import (
    MAX_TOOL_NAME,
    AllowedHost,
    ExplainCall,
    ExplainedCall,
    LaneKind,
    PolicyRule,
)
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, GrantId
from choirctl.output.printing import (
    escape,
    format_age,
    print_json,
    print_rows,
    stdout_console,
    table,
)

ANSWERS = {
    "allow": _("The call runs without a question."),
    "ask": _("A person decides before the call runs."),
    "deny": _("The call is refused."),
}
NO_GRANTS = _("No yes covers later calls; `approval approve ID --scope always` gives one.")
NO_HOSTS = _("Nobody has named or allowed a host; `known_hosts` in config.json needs no question.")
NO_RULES = _("config.json has no rules (section `policy`). Tools ask if their manifests say so.")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "policy",
        ("list", list_rules),
        ("explain", explain),
        ("grants", list_grants),
        ("hosts", list_hosts),
        ("revoke", revoke),
    )


def list_rules(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the rules on tool calls. The first one that applies to a call decides."""
    rules = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(rules)
        return
    rows = table(_("RULE"), _("ACTION"), _("WHEN"), _("WHY"))
    for place, rule in enumerate(rules):
        rows.add_row(str(place), rule.action, escape(_conditions(rule)), escape(rule.why))
    print_rows(rows, NO_RULES)


def explain(
    ctx: typer.Context,
    agent: AgentId,
    tool: Annotated[str, typer.Argument(help="Name of the tool, such as choir.email.send.")],
    arguments: Annotated[str, typer.Argument(help="Arguments of the call as JSON.")] = "{}",
    lane: Annotated[
        str, typer.Option(help="edge: while it talks; core: in a core job.", metavar="edge|core")
    ] = "edge",
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what the policy decides on a call, and why. Nothing is run."""
    if not 0 < len(tool) <= MAX_TOOL_NAME:
        raise InvalidRequest(
            _("TOOL is not a tool's name: it has 1 to {max_tool_name} characters.").format(
                max_tool_name=MAX_TOOL_NAME
            )
        )
    call = ExplainCall(tool=tool, arguments=_read_arguments(arguments), lane=_read_lane(lane))
    explanation = asyncio.run(_explain(find_target(ctx, home, url), agent, call))
    if as_json:
        print_json(explanation)
    else:
        _print(explanation)


def list_grants(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the yeses that cover later calls."""
    grants = asyncio.run(_grants(find_target(ctx, home, url)))
    if as_json:
        print_json(grants)
        return
    rows = table(_("GRANT"), _("COVERS"), _("GRANTED BY"), _("GRANTED"))
    for grant in grants:
        by = escape(grant.granted_by)
        rows.add_row(
            grant.grant_id, escape(describe_grant(grant)), by, format_age(grant.granted_at)
        )
    print_rows(rows, NO_GRANTS)


def list_hosts(
    ctx: typer.Context,
    agent: AgentId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the hosts that people named or allowed. An agent asks before it reaches others."""
    hosts = asyncio.run(_hosts(find_target(ctx, home, url), agent))
    if as_json:
        print_json(hosts)
        return
    rows = table(_("HOST"), _("NAMED BY"), _("AT"))
    for host in hosts:
        rows.add_row(escape(host.host), escape(host.named_by), format_age(host.at))
    print_rows(rows, NO_HOSTS)


def revoke(
    ctx: typer.Context,
    grant: GrantId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a grant: the next such call asks a person again."""
    view = asyncio.run(_revoke(find_target(ctx, home, url), grant))
    if as_json:
        print_json(view)
    else:
        stdout_console().print(
            _("{grant_id}: revoked.").format(grant_id=view.grant_id), markup=False
        )


def _print(explanation: ExplainedCall) -> None:
    console, decision = stdout_console(), explanation.decision
    console.print(f"{decision.action}: {ANSWERS[decision.action]}", markup=False)
    if decision.rule is not None:
        why = f": {decision.why}" if decision.why else "."
        console.print(
            _("Rule {rule} of config.json decides{why}").format(rule=decision.rule, why=why),
            markup=False,
        )
    elif decision.source == "default" and decision.why:
        console.print(
            _("A default rule of Choir decides: {why}").format(why=decision.why), markup=False
        )
    else:
        console.print(_("No rule applies; the tool's manifest decides."), markup=False)
    if decision.action == "ask":
        for grant in explanation.grants:
            text = _("Grant {grant_id} answers: {describe_grant}.").format(
                grant_id=grant.grant_id, describe_grant=describe_grant(grant)
            )
            console.print(text, markup=False)
    destinations = [*explanation.hosts, *explanation.recipients]
    if explanation.may_contact_others:
        destinations.append(_("anything on the internet"))
    if destinations:
        console.print(
            _("The call can contact: {names}.").format(names=", ".join(destinations)), markup=False
        )
    if explanation.spent_usd is not None:
        console.print(
            _("The agent has spent ${spent_usd:.2f} today.").format(
                spent_usd=explanation.spent_usd
            ),
            markup=False,
        )
    for check in explanation.rules:
        if check.unmet:
            unmet = ", ".join(check.unmet)
            console.print(
                _("Rule {rule} does not apply: {unmet}.").format(rule=check.rule, unmet=unmet),
                markup=False,
            )


def _conditions(rule: PolicyRule) -> str:
    conditions = rule.model_dump(mode="json", exclude_defaults=True, exclude={"action", "why"})
    return "  ".join(f"{name}={_short(value)}" for name, value in conditions.items()) or _("always")


def _short(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _read_arguments(text: str) -> JsonObject:
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(_("ARGUMENTS is not JSON: {error}.").format(error=error)) from None
    if not isinstance(arguments, dict):
        raise InvalidRequest(
            _('ARGUMENTS is not a JSON object, such as {"to": ["ann@example.com"]}.')
        )
    return arguments


def _read_lane(text: str) -> LaneKind:
    match text:
        case "edge" | "core":
            return text
    raise InvalidRequest(_("--lane is {text!r}; it takes edge or core.").format(text=text[:20]))


async def _list(place: Target) -> list[PolicyRule]:
    async with connect(place) as api:
        return await api.policy()


async def _grants(place: Target) -> list[GrantView]:
    async with connect(place) as api:
        return await api.grants()


async def _hosts(place: Target, agent: str) -> list[AllowedHost]:
    async with connect(place) as api:
        return await api.allowed_hosts(agent)


async def _revoke(place: Target, grant: str) -> GrantView:
    async with connect(place) as api:
        return await api.revoke_grant(grant)


async def _explain(place: Target, agent: str, call: ExplainCall) -> ExplainedCall:
    async with connect(place) as api:
        return await api.explain_call(agent, call)
