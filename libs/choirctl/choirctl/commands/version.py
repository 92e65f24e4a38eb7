"""Command `choirctl version`."""

import platform

import typer

from choir_common.extras import installed_version
from choirctl.api.target import AsJson
from choirctl.output.printing import print_json, stdout_console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(version)


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    number = installed_version()
    if as_json:
        print_json({"version": number, "python": platform.python_version()})
        return
    stdout_console().print(f"choirctl {number} (Python {platform.python_version()})")
