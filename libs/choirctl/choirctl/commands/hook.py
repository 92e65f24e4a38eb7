"""Commands `choirctl hook list|test|deliveries`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.triggers import DeliveryView, HookTest, HookTestResult, HookView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.output.language import server_text
from choirctl.output.printing import escape, print_json, print_rows, stdout_console, table
from choirctl.output.state_words import state_text

NOTHING = _("No hooks; docs/hooks.md shows how to add one to config.json.")
NO_DELIVERIES = _("Nothing has arrived.")
SHOWN_TEXT = 60
HookName = Annotated[str, typer.Argument(metavar="HOOK", help="A name in `hooks` of config.json.")]
Body = Annotated[str | None, typer.Option("--body", help="The JSON body.")]
BodyFile = Annotated[
    str | None, typer.Option("--file", help="A file with the JSON body; `-` is standard input.")
]
Send = Annotated[bool, typer.Option("--send", help="Let the agent read it, too.")]
Limit = Annotated[int, typer.Option(help="How many to show.", min=1, max=200)]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app, "hook", ("list", list_hooks), ("test", test_hook), ("deliveries", list_deliveries)
    )


def list_hooks(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the hooks, with what waits and what was refused."""
    views = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(views)
        return
    rows = table(
        _("HOOK"),
        _("AGENT"),
        _("KIND"),
        _("SIGNATURE"),
        _("WAITING"),
        _("RUNNING"),
        _("REFUSED"),
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
            view.signature,
            str(view.waiting),
            str(view.running),
            str(view.refused),
            escape(server_text(view.note or refusal)),
        )
    print_rows(rows, NOTHING)


def test_hook(
    ctx: typer.Context,
    hook: HookName,
    body: Body = None,
    file: BodyFile = None,
    send: Send = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what the agent would read of a body.

    Nothing is sent to it without `--send`.
    """
    request = HookTest(body=_read_body(body, file), send=send)
    result = asyncio.run(_test(find_target(ctx, home, url), hook, request))
    if as_json:
        print_json(result)
        return
    console = stdout_console()
    console.print(result.text, markup=False)
    if result.delivery_id is not None:
        console.print(
            _("Sent as {delivery_id}.").format(delivery_id=result.delivery_id), markup=False
        )


def list_deliveries(
    ctx: typer.Context,
    hook: HookName,
    limit: Limit = 20,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List what arrived through a hook, the newest first."""
    views = asyncio.run(_deliveries(find_target(ctx, home, url), hook, limit))
    print_deliveries(views, as_json=as_json)


def print_deliveries(views: list[DeliveryView], *, as_json: bool) -> None:
    """Print what arrived through a hook or a trigger."""
    if as_json:
        print_json(views)
        return
    rows = table(_("DELIVERY"), _("RECEIVED"), _("STATE"), _("BYTES"), _("DETAIL"), _("TEXT"))
    for view in views:
        text = " ".join(view.text.split())
        rows.add_row(
            view.delivery_id,
            f"{view.received_at.astimezone():%Y-%m-%d %H:%M:%S}",
            state_text(view.state),
            str(view.size),
            escape(server_text(view.detail)),
            escape(text if len(text) <= SHOWN_TEXT else f"{text[: SHOWN_TEXT - 1]}…"),
        )
    print_rows(rows, NO_DELIVERIES)


def _read_body(body: str | None, file: str | None) -> str:
    if (body is None) == (file is None):
        raise InvalidRequest(_("Give exactly one of --body and --file."))
    if body is not None:
        return body
    try:
        return sys.stdin.read() if file == "-" else Path(str(file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            _("{file} cannot be read: {error}.").format(file=file, error=error)
        ) from None


async def _list(place: Target) -> list[HookView]:
    async with connect(place) as api:
        return await api.hooks.list()


async def _test(place: Target, hook: str, request: HookTest) -> HookTestResult:
    async with connect(place) as api:
        return await api.hooks.test(hook, request)


async def _deliveries(place: Target, hook: str, limit: int) -> list[DeliveryView]:
    async with connect(place) as api:
        return await api.hooks.deliveries(hook, limit)
