"""Commands `choirctl trigger list|deliveries`."""

import asyncio
from typing import Annotated

import typer

from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.triggers import DeliveryView, TriggerView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.commands.hook import Limit, print_deliveries
from choirctl.output.language import server_text
from choirctl.output.printing import escape, print_json, print_rows, table
from choirctl.output.state_words import state_text

NOTHING = _(
    "No watched folders and no mail triggers; docs/hooks.md shows how to add one to config.json."
)
TriggerName = Annotated[
    str, typer.Argument(metavar="TRIGGER", help="A name in `triggers` of config.json.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "trigger", ("list", list_triggers), ("deliveries", list_trigger_deliveries))


def list_triggers(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the folders and mail that start work, with their state."""
    views = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(views)
        return
    rows = table(
        _("TRIGGER"),
        _("AGENT"),
        _("KIND"),
        _("WAITING"),
        _("RUNNING"),
        _("REFUSED"),
        _("SOURCE"),
        _("NOTE"),
    )
    for view in views:
        refusal = (
            _("last refusal: {last_refusal}").format(last_refusal=view.last_refusal)
            if view.last_refusal
            else ""
        )
        rows.add_row(
            escape(view.name),
            view.agent_id,
            state_text(view.kind),
            str(view.waiting),
            str(view.running),
            str(view.refused),
            escape(_source(view)),
            escape(server_text(view.note or refusal)),
        )
    print_rows(rows, NOTHING)


def list_trigger_deliveries(
    ctx: typer.Context,
    trigger: TriggerName,
    limit: Limit = 20,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List what was given to the agent, the newest first."""
    views = asyncio.run(_deliveries(find_target(ctx, home, url), trigger, limit))
    print_deliveries(views, as_json=as_json)


def _source(view: TriggerView) -> str:
    if view.gateway is None:
        return view.folder
    subject = _(", subject {subject!r}").format(subject=view.subject) if view.subject else ""
    return _("{gateway}: mail from {names}{subject}").format(
        gateway=view.gateway, names=", ".join(view.patterns), subject=subject
    )


async def _list(place: Target) -> list[TriggerView]:
    async with connect(place) as api:
        return await api.triggers.list()


async def _deliveries(place: Target, trigger: str, limit: int) -> list[DeliveryView]:
    async with connect(place) as api:
        return await api.triggers.deliveries(trigger, limit)
