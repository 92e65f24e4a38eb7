"""Options that select the Choir that a command talks to. Used by every command."""

from pathlib import Path
from typing import Annotated

import typer

from choir_common import target
from choir_common.target import Target

Home = Annotated[
    Path | None,
    typer.Option("--home", help="State directory; else CHOIR_HOME, else ~/.choir.d."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of control; else CHOIR_URL, else the local socket."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]


def find_target(ctx: typer.Context, home: Path | None = None, url: str | None = None) -> Target:
    """Return the Choir that the command's options, the global options or the environment select.

    They count in this order. Raises NotFound if the user has no home directory to fall back to.
    """
    outer_home, outer_url = ctx.find_root().obj or (None, None)
    return target.find_target(home or outer_home, url or outer_url)
