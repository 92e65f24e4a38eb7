"""`choirctl down`: stop the embedded stack of this state directory."""

import asyncio

import typer

from choir_local.home import Home as LocalHome
from choir_local.stack import stop_stack
from choirctl.place import AsJson, Home, find_place
from choirctl.printing import err, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(down)


def down(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Stop the Choir that `up` started.

    Waits until all of it has stopped; none that runs is no error.
    """
    place = find_place(ctx, home)
    console = err()
    with console.status("Stopping…"):
        stopped = asyncio.run(stop_stack(LocalHome(place.home)))
    if as_json:
        print_json({"home": str(place.home), "stopped": stopped})
    elif stopped:
        console.print(f"Choir in {place.home} has stopped.")
    else:
        console.print(f"No Choir that `choirctl up` started runs in {place.home}.")
        if place.socket.exists():
            console.print("If it runs in containers, `docker compose down` stops it.")
