"""Command `choirctl mcp import`: adds the MCP servers of another program to config.json; see docs/mcp.md."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import JsonValue

from choir_common.errors import InvalidRequest, NotFound
from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.secret_file import check_secret_value, edit_secret_file, read_secret_file
from choirctl.api.target import AsJson, Home, find_target
from choirctl.commands.mcp_settings import (
    ACTIVATE,
    SERVERS,
    Agents,
    only_agent,
    raw_servers,
    read_config,
)
from choirctl.output.language import tr
from choirctl.output.printing import escape, print_json, print_rows, stderr_console, table
from choirctl.output.state_words import state_text
from choirctl.start.config_set import set_value
from choirctl.start.mcp_file import ForeignServer, read_mcp_file

MAX_FILE_BYTES = 1_000_000

McpImportOutcome = Literal["added", "unchanged", "kept", "left out"]


@dataclass(frozen=True, slots=True)
class _Row:
    """What becomes of one server."""

    server: ForeignServer
    result: McpImportOutcome
    note: str

    def as_json(self) -> dict[str, JsonValue]:
        """Return the row without the values of secrets."""
        return {
            "name": self.server.name,
            "source": self.server.source,
            "result": self.result,
            "server": self.server.entry,
            "secrets": [*sorted(self.server.secrets)],
            "note": self.note,
        }


def import_servers(
    ctx: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="mcp.json or claude_desktop_config.json, for example."),
    ],
    agent: Agents = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only show what would be added.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Add the MCP servers of Claude, Cursor or VS Code to config.json.

    Keys become secrets. A server that exists is not changed, so a repetition does no harm. Nothing is
    started before `config load` and `config apply`, and nothing offered before your yes to the tools.
    """
    place = find_target(ctx, home)
    file, secret_file = place.home / "config.json", place.home / "secrets.json"
    agents = [*(agent or only_agent(read_config(file)))]
    servers, values_before = raw_servers(file), _secrets(secret_file)
    rows = [
        _decide(server, servers, values_before)
        for server in read_mcp_file(_text(path), str(path), agents)
    ]
    new = [row.server for row in rows if row.result == "added"]
    if new and not preview:
        # The secrets first: a server in config.json without its secret is reported as a fault.
        with edit_secret_file(secret_file) as values:
            values |= {k: v for server in new for k, v in server.secrets.items() if v is not None}
        set_value(file, SERVERS, {**servers, **{server.name: server.entry for server in new}})
    if as_json:
        print_json(
            {"file": str(file), "preview": preview, "servers": [row.as_json() for row in rows]}
        )
    else:
        _print(rows)
    _print_next_step(file, len(new), preview)


def _decide(
    server: ForeignServer, servers: dict[str, JsonValue], values_before: dict[str, str]
) -> _Row:
    if server.fault:
        return _Row(server, "left out", server.fault)
    before = servers.get(server.name)
    if before == server.entry:
        return _Row(server, "unchanged", "")
    if before is not None:
        return _Row(
            server,
            "kept",
            _("{servers}.{name} exists with other settings").format(
                servers=SERVERS, name=server.name
            ),
        )
    for name, value in server.secrets.items():
        if value is not None and values_before.get(name, value) != value:
            return _Row(
                server,
                "left out",
                _(
                    "the secret {name} exists with another value: choirctl secret delete {name}"
                ).format(name=name),
            )
        if value is not None:
            check_secret_value(value)
    return _Row(server, "added", "; ".join(server.notes))


def _secrets(file: Path) -> dict[str, str]:
    try:
        return read_secret_file(file)
    except NotFound:
        # `init` was not run yet; the import makes the file.
        return {}


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidRequest(
                _("{path} has more than {max_file_bytes} bytes.").format(
                    path=path, max_file_bytes=MAX_FILE_BYTES
                )
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(_("{path} is not UTF-8 text.").format(path=path)) from None
    except FileNotFoundError:
        raise NotFound(_("There is no file {path}.").format(path=path)) from None
    except OSError as error:
        raise InvalidRequest(
            _("{path} cannot be read: {strerror}.").format(path=path, strerror=error.strerror)
        ) from None


def _print(rows: list[_Row]) -> None:
    lines = table(_("SERVER"), "", _("SECRETS"), _("NOTE"))
    for row in rows:
        name = row.server.name or row.server.source
        cells = (
            name,
            state_text(row.result),
            ", ".join(sorted(row.server.secrets)) or "-",
            row.note,
        )
        lines.add_row(*(escape(escape_hidden(tr(cell), keep="")) for cell in cells))
    print_rows(lines, _("No servers."))
    for row in rows:
        if row.result == "added":
            what = json.dumps(row.server.entry)
            stderr_console().print(f"{row.server.name}: {what}", highlight=False, markup=False)


def _print_next_step(file: Path, count: int, preview: bool) -> None:
    if not count:
        text = _("Nothing was changed.")
    elif preview:
        text = _(
            "Nothing was changed: without --preview, {count} would be added to {file}."
        ).format(count=count, file=file)
    else:
        text = _("Added {count} to {file}. {activate}").format(
            count=count, file=file, activate=ACTIVATE
        )
    stderr_console().print(text, highlight=False, markup=False)
