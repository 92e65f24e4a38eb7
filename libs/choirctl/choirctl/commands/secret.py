"""Commands `choirctl secret list|set|delete|apply`. They print names of secrets, never values.

`set`, `delete` and `list` work on secrets.json directly, so Choir need not run; `apply` makes control read
it again.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from choir_common.errors import Forbidden, InvalidRequest, NotFound
from choir_common.i18n import _, join
from choir_common.secret_file import (
    MAX_VALUE_BYTES,
    check_secret_name,
    check_secret_value,
    edit_secret_file,
    read_secret_file,
)
from choir_common.stack_secrets import RESERVED_SECRETS
from choir_common.target import Target
from choir_common.wire.config_api import SecretName, SecretsApplied
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.commands.config import Wait, follow_report, raise_unless_applied
from choirctl.output.language import tr
from choirctl.output.printing import print_json, print_rows, stderr_console, stdout_console, table

OWN_USE = "Choir itself"
METRICS_TOKEN = "metrics-token"  # noqa: S105 - the name of what opens choird's figures, made by people
SecretArgument = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_secrets)
    group.command("set")(set_secret)
    group.command("delete")(delete)
    group.command("apply")(apply)
    app.add_typer(group, name="secret", help="Store keys and passwords, and apply changes to them.")


def list_secrets(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """List the names of secrets, and what uses each; never a value."""
    secrets = _names(find_target(ctx, home).home)
    if as_json:
        print_json(secrets)
        return
    rows = table(_("SECRET"), "", _("USED BY"))
    for secret in secrets:
        rows.add_row(
            secret.name,
            _("[green]set[/]") if secret.set else _("[red]not set[/]"),
            _("Choir itself") if secret.used_by == (OWN_USE,) else ", ".join(secret.used_by) or "-",
        )
    print_rows(
        rows,
        _("There are no secrets in {home}, and config.json names none.").format(
            home=find_target(ctx, home).home
        ),
    )


def set_secret(
    ctx: typer.Context,
    name: SecretArgument,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="SECRET",
            help="The value. Better left out: it is then asked for, or read from standard input.",
            show_default=False,
        ),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Set a secret, from a prompt or standard input.

    The file is replaced atomically; `secret apply` passes the value to the running services and agents.
    """
    check_secret_name(name)
    if value is not None:
        stderr_console().print(
            _(
                "[yellow]Warning:[/] a value on the command line stays in the shell's history, "
                "and others could see it in the list of processes. Leave it out next time: it is "
                "then asked for."
            )
        )
    new_value = value if value is not None else _ask(name)
    check_secret_value(new_value)
    place = find_target(ctx, home)
    with edit_secret_file(place.home / "secrets.json") as values:
        replaced = name in values
        values[name] = new_value
    if as_json:
        print_json({"name": name, "replaced": replaced})
    verb = _("{name} is replaced.") if replaced else _("{name} is set.")
    stderr_console().print(join("", (verb.format(name=name), _next_step(place, name))))


def delete(
    ctx: typer.Context, name: SecretArgument, home: Home = None, as_json: AsJson = False
) -> None:
    """Delete a secret.

    After `secret apply`, Choir continues without it. Choir's own secrets cannot be deleted.
    """
    if name in RESERVED_SECRETS:
        raise Forbidden(
            _(
                "{name} is Choir's own: its services do not work without it. Nothing was "
                "deleted. If others may have read it, take Choir down and remove its line from "
                "secrets.json; the next `choirctl up` makes a new one."
            ).format(name=name)
        )
    place = find_target(ctx, home)
    with edit_secret_file(place.home / "secrets.json") as values:
        if values.pop(name, None) is None:
            raise NotFound(
                _("There is no secret {name!r}. See `choirctl secret list`.").format(name=name[:64])
            )
    used_by = next((s.used_by for s in _names(place.home) if s.name == name), ())
    if used_by:
        stderr_console().print(
            _("[yellow]Warning:[/] config.json still uses it: {names}.").format(
                names=", ".join(used_by)
            )
        )
    if as_json:
        print_json({"name": name, "used_by": list(used_by)})
    stderr_console().print(
        _("{name} is deleted.{next_step}").format(name=name, next_step=_next_step(place, name))
    )


def apply(
    ctx: typer.Context,
    wait_s: Wait = 20.0,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make Choir read secrets.json again.

    Then waits until every running agent has the new values. Exits 1 if an agent cannot apply them, 6 if one
    has not applied them in time; they are active in both cases.
    """
    applied = asyncio.run(_apply(find_target(ctx, home, url), wait_s, as_json))
    if as_json:
        print_json(applied)
    raise_unless_applied(applied.report, wait_s)


async def _apply(place: Target, wait_s: float, quiet: bool) -> SecretsApplied:
    async with connect(place) as api:
        result = await api.secrets.apply()
        if not quiet:
            _print_changes(result)
        progress = await follow_report(api, result.report, wait_s, quiet)
        return result.model_copy(update={"report": progress})


def _print_changes(result: SecretsApplied) -> None:
    console = stdout_console()
    for mark, names in (("+", result.added), ("~", result.changed), ("-", result.removed)):
        for name in names:
            console.print(f"{mark} {name}", markup=False)
    words = (
        (result.overridden, _("from the environment of `choirctl up`, which overrides the file")),
        (result.at_restart, _("applied at the next start: choirctl down, then up")),
        (result.missing, _("used in the configuration but not set: choirctl secret set")),
    )
    for names, meaning in words:
        if names:
            stderr_console().print(f"[yellow]{', '.join(names)}[/]: {meaning}.")
    if not (result.added or result.changed or result.removed):
        stderr_console().print(_("No value has changed; running agents fetch the values again."))


def _names(home: Path) -> list[SecretName]:
    try:
        existing_names = read_secret_file(home / "secrets.json").keys()
    except NotFound:
        existing_names = {}.keys()
    uses = _uses(home / "config.json")
    return [
        SecretName(
            name=name, set=name in existing_names, used_by=uses.get(name, ()) or _reserved_use(name)
        )
        for name in sorted(existing_names | uses.keys())
    ]


def _reserved_use(name: str) -> tuple[str, ...]:
    return (OWN_USE,) if name in (*RESERVED_SECRETS, METRICS_TOKEN) else ()


def _uses(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the secrets named in a config.json and the paths that use each; it may be invalid elsewhere."""
    try:
        document: JsonValue = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    uses: dict[str, list[str]] = {}
    _collect((), document, uses)
    return {name: tuple(places) for name, places in uses.items()}


def _collect(path: tuple[str, ...], value: JsonValue, uses: dict[str, list[str]]) -> None:
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key == "secret" and isinstance(inner, str) and inner:
            uses.setdefault(inner, []).append(".".join(path))
        _collect((*path, key), inner, uses)


def _ask(name: str) -> str:
    if sys.stdin.isatty():
        answer: str = typer.prompt(
            tr(_("Value of {name}").format(name=name)), hide_input=True, err=True
        )
        return answer
    try:
        text = sys.stdin.buffer.read(MAX_VALUE_BYTES + 2).decode()
    except UnicodeDecodeError:
        raise InvalidRequest(_("The value is not UTF-8 text.")) from None
    # one trailing newline comes from `echo`; a value of several lines, such as a key file, keeps its own
    return text[:-1].removesuffix("\r") if text.count("\n") == 1 and text.endswith("\n") else text


def _next_step(place: Target, name: str) -> str:
    if not place.socket.exists():
        return ""
    if name in RESERVED_SECRETS:
        return _(
            " Choir's own secrets are applied at its next start: `choirctl down`, then "
            "`choirctl up`."
        )
    return _(" Apply it with `choirctl secret apply`.")
