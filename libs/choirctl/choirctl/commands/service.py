"""Commands `choirctl service install|uninstall|status`: Choir as a service that starts with the machine."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _, join
from choir_local.home import Home as LocalHome
from choirctl.api.target import AsJson, Home, find_target
from choirctl.app import add_group
from choirctl.output.printing import print_json, stderr_console, stdout_console
from choirctl.service.init_systems import find_manager
from choirctl.service.unit_files import (
    SERVICE_USER,
    SYSTEM_HOME,
    ServiceSpec,
    launchd_plist,
    systemd_unit,
    unreadable_parent,
)
from choirctl.start.background import is_running

System = Annotated[
    bool,
    typer.Option("--system", help=f"A service of the machine, with its own user `{SERVICE_USER}`."),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app, "service", ("install", install), ("uninstall", uninstall), ("status", show_status)
    )


def install(
    ctx: typer.Context,
    system: System = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the unit file, and change nothing.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Install and start a service that runs Choir.

    It starts with the machine, or when you log in. Uses systemd, or launchd on macOS. Without --system the
    service belongs to you. With --system it has the state directory /var/lib/choir, unless --home names
    another below /var/lib.
    """
    service = _definition(ctx, system, home)
    if dry_run:
        text = launchd_plist(service) if sys.platform == "darwin" else systemd_unit(service)
        if as_json:
            print_json({"unit": text})
        else:
            stdout_console().print(text, end="", markup=False, highlight=False)
        return
    manager = find_manager(system=system)
    # its own service may run: it is started again with the new unit
    if is_running(LocalHome(service.home)) and not manager.state().active:
        raise Conflict(
            _(
                "Choir runs already in {home}. Stop it with `choirctl down`, then run this again."
            ).format(home=service.home)
        )
    if system:
        _check_readable()
    manager.install(service)
    hints = manager.hints()
    if as_json:
        print_json({"file": str(manager.file), "home": str(service.home), "hints": hints})
        return
    console = stderr_console()
    console.print(_("Installed and started: {file}").format(file=manager.file), markup=False)
    for hint in hints:
        console.print(hint, markup=False)


def uninstall(system: System = False, as_json: AsJson = False) -> None:
    """Stop the service and remove its unit file.

    The state directory stays.
    """
    manager = find_manager(system=system)
    was_there = manager.uninstall()
    if as_json:
        print_json({"file": str(manager.file), "removed": was_there})
    elif was_there:
        stderr_console().print(
            _("Stopped and removed: {file}").format(file=manager.file), markup=False
        )
    else:
        stderr_console().print(_("There is no {file}.").format(file=manager.file), markup=False)


def show_status(system: System = False, as_json: AsJson = False) -> None:
    """Show whether the service is installed, enabled and running."""
    state = find_manager(system=system).state()
    if as_json:
        print_json(asdict(state) | {"file": str(state.file)})
        return
    words = (
        _("installed") if state.installed else _("not installed"),
        _("starts with the machine") if state.enabled else _("does not start with the machine"),
        _("running") if state.active else _("not running"),
    )
    stdout_console().print(
        _("{file}: {words}").format(file=state.file, words=join(", ", words)),
        markup=False,
        highlight=False,
    )


def _definition(ctx: typer.Context, system: bool, home: Path | None) -> ServiceSpec:
    if "/.cache/uv/" in sys.prefix or "/uv/archive" in sys.prefix:
        raise InvalidRequest(
            _(
                "This is a temporary installation of uvx. Install Choir first: `uv tool install "
                "choir-agents`."
            )
        )
    option = home or (ctx.find_root().obj or (None, None))[0]
    if system:
        place = (option or SYSTEM_HOME).absolute()
        if place.parent != SYSTEM_HOME.parent:
            raise InvalidRequest(
                _("With --system the state directory is below /var/lib, not {place}.").format(
                    place=place
                )
            )
    else:
        place = find_target(ctx, home).home
    script = Path(sys.executable).with_name("choirctl")
    program = (str(script),) if script.exists() else (sys.executable, "-P", "-m", "choirctl")
    return ServiceSpec((*program, "up", "--no-chat"), place, system)


def _check_readable() -> None:
    """Raise InvalidRequest if the service's user cannot reach this Python."""
    closed = unreadable_parent((Path(sys.executable), Path(sys.executable).resolve()))
    if closed is not None:
        raise InvalidRequest(
            _(
                "The user `{service_user}` may not enter {closed}, where Choir is installed. "
                "Install it elsewhere: `python3 -m venv /opt/choir && /opt/choir/bin/pip install "
                "choir-agents`."
            ).format(service_user=SERVICE_USER, closed=closed)
        )
