"""Command `choirctl uninstall`: stop Choir, and remove its service and its packages."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import Conflict, InvalidRequest
from choir_common.extras import DISTRIBUTION, is_wheel
from choir_common.i18n import _
from choir_local.home import Home as LocalHome
from choir_local.stack import stop_stack
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import confirm, print_json, stderr_console
from choirctl.service.init_systems import find_manager

SIGNS_OF_A_HOME = ("secrets.json", "config.json", "data")
PIP_S = 300.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(uninstall)


def uninstall(
    ctx: typer.Context,
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Delete the state directory too, with all conversations."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Stop Choir, and remove its service and its packages.

    The state directory stays, unless --purge is given.
    """
    place = find_target(ctx, home).home
    if purge:
        check_home(place)
    command = removal_command()
    question = _("Stop and remove Choir") + (
        _(", and DELETE {place} for good").format(place=place) if purge else ""
    )
    if not yes:
        confirm(f"{question}?", abort=True)
    ran = asyncio.run(_stop(place))
    files = _remove_services(place)
    if purge:
        _delete(place)
    done = {"home": str(place), "stopped": ran, "services": files, "purged": purge}
    if as_json:
        print_json(done | {"command": command})
    else:
        _report(place, files, purge)
    # last, because it removes the files of this command
    if command:
        subprocess.run(command, check=True, timeout=PIP_S, stdout=sys.stderr)


def removal_command() -> list[str]:
    """Return the command that removes the packages; empty in a checkout, whose files are the operator's."""
    if not is_wheel():
        return []
    if "/pipx/" in sys.prefix:
        return ["pipx", "uninstall", DISTRIBUTION]
    if "/uv/tools/" in sys.prefix:
        return ["uv", "tool", "uninstall", DISTRIBUTION]
    return [sys.executable, "-m", "pip", "uninstall", "--yes", DISTRIBUTION]


def check_home(place: Path) -> None:
    """Raise InvalidRequest if `place` is not a state directory of Choir, or contains a user's home."""
    resolved = place.resolve()
    holds_a_home = Path.home().resolve().is_relative_to(resolved)
    if holds_a_home or not all((resolved / name).exists() for name in SIGNS_OF_A_HOME):
        raise InvalidRequest(
            _(
                "{place} is not a state directory of Choir: nothing was deleted. Name it with "
                "--home."
            ).format(place=place)
        )


async def _stop(place: Path) -> bool:
    return await stop_stack(LocalHome(place))


def _remove_services(place: Path) -> list[str]:
    """Remove the services that run Choir in `place`, the machine's only as root; return their files."""
    paths = []
    for system in (False, True):
        try:
            manager = find_manager(system=system)
        except InvalidRequest:
            continue
        text = manager.file.read_text() if manager.file.exists() else ""
        is_of_place = any(f"{place}{end}" in text for end in ('"', "<"))
        if is_of_place and (not system or os.geteuid() == 0):
            manager.uninstall()
            paths.append(str(manager.file))
    return paths


def _delete(place: Path) -> None:
    try:
        shutil.rmtree(place.resolve())
    except OSError as error:
        raise Conflict(
            _("{filename} cannot be deleted: {strerror}. Delete {place} yourself.").format(
                filename=error.filename, strerror=error.strerror, place=place
            )
        ) from error


def _report(place: Path, files: list[str], purge: bool) -> None:
    console = stderr_console()
    for file in files:
        console.print(_("Removed {file}.").format(file=file), markup=False)
    console.print(
        _("Deleted {place}.").format(place=place)
        if purge
        else _("{place} stays: it has all your data.").format(place=place),
        markup=False,
    )
    if not is_wheel():
        console.print(
            _("This is a checkout: `make clean` removes what was installed."), markup=False
        )
