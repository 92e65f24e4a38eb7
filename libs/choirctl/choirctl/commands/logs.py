"""Command `choirctl logs SOURCE`: print a log and follow it.

It reads the files directly, because logs matter most when choird does not respond.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.ids import is_agent_id
from choir_common.logs import reader as reading
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import print_json_text, stderr_console

SERVICES = (
    "choird",
    "gateway",
    "memory",
    "browser",
    "egress",
    "postgres",
    "nats",
    "rehearsal",
    "stack",
)
SHOWN_FIRST = ("timestamp", "level", "source", "session", "lane", "message")


def existing_sources(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of existing logs, for shell completion."""
    try:
        directory = find_target(ctx).home / "logs"
    except NotFound:
        return []
    sources = {path.stem for path in directory.glob("*.log")} | _archived_sources(directory)
    return sorted(name for name in sources if name.startswith(incomplete))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(logs)


def logs(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An agent's id, choird, or another service.",
            autocompletion=existing_sources,
        ),
    ],
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=0, help="Only the newest lines.", show_default=False),
    ] = None,
    follow_lines: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Follow the log.")
    ] = True,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print a log and follow it until Ctrl-C.

    A log that is rotated meanwhile is read to its end, and the new one from its beginning.
    """
    place = find_target(ctx, home)
    if place.url is not None:
        raise InvalidRequest(
            _("Logs are files: run this on the machine where Choir runs, without --url.")
        )
    path = log_path(place.home / "logs", source)
    if not path.exists():
        _print_archive_path(path, source)
    try:
        for line in (reading.follow_lines if follow_lines else reading.read_lines)(path, lines):
            if as_json:
                print_json_text(line.decode(errors="replace"))
                continue
            sys.stdout.write(format_line(line))
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def log_path(directory: Path, source: str) -> Path:
    """Return the path of the current log of `source`; the file may not exist yet.

    Raises NotFound for an unknown source; the message lists the existing ones.
    """
    path = directory / f"{source}.log"
    plain = source in SERVICES or is_agent_id(source)
    if plain and (path.exists() or (directory / "archive" / source).is_dir()):
        return path
    sources = sorted({p.stem for p in directory.glob("*.log")} | _archived_sources(directory))
    listing = (
        _("There are {names}").format(names=", ".join(sources))
        if sources
        else _("There is none yet in {directory}").format(directory=directory)
    )
    raise NotFound(
        _(
            "There is no log of {source!r}. {listing}. What runs in a container of docker "
            "compose is read with `docker compose logs SERVICE`."
        ).format(source=source, listing=listing)
    )


def format_line(line: bytes) -> str:
    """Return a JSON log line as readable text: time, level, message and the other fields."""
    text = line.decode(errors="replace")
    try:
        fields = json.loads(text)
    except ValueError:
        return text
    if not isinstance(fields, dict):
        return text
    rest = "".join(
        f" {name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in fields.items()
        if name not in SHOWN_FIRST or name in ("session", "lane")
    )
    when = str(fields.get("timestamp", ""))[:19].replace("T", " ")
    return f"{when} {fields.get('level', '')!s:<7} {fields.get('message', '')}{rest}\n"


def _archived_sources(directory: Path) -> set[str]:
    return {path.name for path in (directory / "archive").glob("*") if path.is_dir()}


def _print_archive_path(path: Path, source: str) -> None:
    files = sorted((path.parent / "archive" / source).glob("*.log*"))
    if files:
        stderr_console().print(
            _("{source} has no current log. The last one was archived as {files}.").format(
                source=source, files=files[-1]
            ),
            markup=False,
        )
