"""Files that list the MCP servers of other programs, and the settings that they become in Choir. Pure.

Claude Desktop, Claude Code and Cursor write `mcpServers`, VS Code `servers`, in its settings `mcp.servers`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath
from urllib.parse import urlsplit

from pydantic import JsonValue, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.mcp_config import RESERVED_VARIABLES, McpConfig, McpServerConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages

MAX_NAME = 24
MAX_SECRET_NAME = 64
BEARER = "bearer "
REGISTRIES = {
    "npx": ("registry.npmjs.org",),
    "uvx": ("pypi.org", "files.pythonhosted.org"),
}
"""Programs that download a package at each start, and from where."""
_KEY_NAME = re.compile(
    r"(?i)(^|[_-])(key|apikey|token|secret|pass|password|passwd|pwd|pat|credentials?|auth|dsn)s?($|[_-])"
)
_KEY_PREFIX = re.compile(
    r"^(sk-|sk_|pk_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|eyJ|ntn_|secret_)"
)
_RANDOM = re.compile(r"^(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{24,}$")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]+")
_ASKED_VALUE = re.compile(r"^\$\{(input|env):[^}]+\}$|^\$\{[A-Za-z_][A-Za-z0-9_]*\}$")


class _Unsuitable(Exception):
    """Choir cannot use this server; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """A server of another program's file."""

    source: str
    """Its name in the file."""
    name: str = ""
    entry: JsonObject = field(default_factory=dict)
    """Its settings in config.json; empty if it cannot be imported."""
    secrets: dict[str, str | None] = field(default_factory=dict, repr=False)
    """Values by the name of the secret; None if the file only says that the program asks for one."""
    notes: tuple[str, ...] = ()
    fault: str = ""
    """Why it cannot be imported, and what to do."""


def read_mcp_file(text: str, path: str, agents: Sequence[str]) -> list[ForeignServer]:
    """Return the servers of a file, for these agents; raises InvalidRequest if it lists none."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(
            _("{path} is not JSON: {error}. Comments and trailing commas must be removed.").format(
                path=path, error=error
            )
        ) from None
    servers: list[ForeignServer] = []
    for source, item in _servers(content, path).items():
        server = _convert(source, item, agents)
        if server.name and any(server.name == other.name for other in servers):
            server = ForeignServer(
                source,
                fault=_("another server is called {name} here, too").format(name=server.name),
            )
        servers.append(server)
    if not servers:
        raise InvalidRequest(_("{path} lists no servers.").format(path=path))
    return servers


def looks_like_key(name: str, value: str) -> bool:
    """Return whether the value of a variable or an argument is probably secret."""
    if value.lower() in ("", "true", "false") or value.isdigit():
        return False
    if _KEY_NAME.search(name) or _KEY_PREFIX.match(value) or _RANDOM.match(value):
        return True
    try:
        return urlsplit(value).password is not None
    except ValueError:
        return False


def _servers(content: JsonValue, path: str) -> JsonObject:
    parent = content.get("mcp", content) if isinstance(content, dict) else None
    for place in (content, parent):
        for key in ("mcpServers", "servers"):
            servers = place.get(key) if isinstance(place, dict) else None
            if isinstance(servers, dict):
                return servers
    raise InvalidRequest(
        _(
            "{path} has no object `mcpServers` (Claude, Cursor) or `servers` (VS Code): it "
            "is not a list of MCP servers."
        ).format(path=path)
    )


def _convert(source: str, item: JsonValue, agents: Sequence[str]) -> ForeignServer:
    name = re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")[:MAX_NAME].strip("-")
    try:
        if not name:
            raise _Unsuitable(_("its name has no letters and digits that Choir can use"))
        if not isinstance(item, dict):
            raise _Unsuitable(_("it is not a JSON object"))
        if item.get("disabled") is True or item.get("enabled") is False:
            raise _Unsuitable(_("it is disabled in that program"))
        secrets: dict[str, str | None] = {}
        notes: list[str] = []
        is_url = any(isinstance(item.get(key), str) for key in ("url", "serverUrl"))
        convert = _url_entry if is_url else _command_entry
        entry: JsonObject = {**convert(name, item, secrets, notes), "agents": [*agents]}
        _check(name, entry)
    except _Unsuitable as fault:
        return ForeignServer(source, name, fault=str(fault))
    notes += [
        _("set its value: choirctl secret set {secret}").format(secret=secret)
        for secret, value in secrets.items()
        if value is None
    ]
    return ForeignServer(source, name, entry, secrets, tuple(notes))


def _check(name: str, entry: JsonObject) -> None:
    try:
        McpServerConfig.model_validate_json(json.dumps(entry))
        McpConfig.model_validate_json(json.dumps({"servers": {name: entry}}))
    except ValidationError as error:
        raise _Unsuitable("; ".join(error_messages(error, name)[:3])) from None


def _url_entry(
    name: str, item: JsonObject, secrets: dict[str, str | None], notes: list[str]
) -> JsonObject:
    url = str(item.get("url") or item.get("serverUrl"))
    if str(item.get("type", "http")).lower() == "sse":
        raise _Unsuitable(
            _("it speaks the old SSE transport; ask its maker for the address of streamable HTTP")
        )
    if _PLACEHOLDER.search(url) or any(looks_like_key(*pair) for pair in _query(url)):
        raise _Unsuitable(
            _("its URL contains a key or a variable; Choir sends keys in `secret` only")
        )
    entry: JsonObject = {"url": url}
    headers = item.get("headers")
    for header, value in headers.items() if isinstance(headers, dict) else ():
        if header.lower() != "authorization" or not str(value).lower().startswith(BEARER):
            raise _Unsuitable(
                _("it needs the header {header}; Choir sends `Authorization: Bearer` only").format(
                    header=header[:40]
                )
            )
        entry["secret"] = _add_secret(name, "token", str(value)[len(BEARER) :].strip(), secrets)
    if "secret" not in entry:
        notes.append(_("sends no token"))
    return entry


def _query(url: str) -> Iterator[tuple[str, str]]:
    try:
        query = urlsplit(url).query
    except ValueError:
        return
    for part in query.split("&"):
        name, _rest, value = part.partition("=")
        yield name, value


def _command_entry(
    name: str, item: JsonObject, secrets: dict[str, str | None], notes: list[str]
) -> JsonObject:
    program, arguments = item.get("command"), item.get("args", [])
    if not isinstance(program, str) or not program or not isinstance(arguments, list):
        raise _Unsuitable(_("it has neither a `command` with a list `args` nor a `url`"))
    command = [program, *map(str, arguments)]
    if any(_PLACEHOLDER.search(word) for word in command):
        raise _Unsuitable(_("its command contains a variable that only that program replaces"))
    for before, word in pairwise(command):
        option, _rest, value = word.rpartition("=")
        if looks_like_key(option or (before if before.startswith("-") else ""), value):
            raise _Unsuitable(
                _("an argument looks like a key; pass it as a variable with `mcp add --secret`")
            )
    entry: JsonObject = {"command": [*command]}
    environment = _environment(name, item, entry, secrets, notes)
    if environment:
        entry["environment"] = environment
    registries = REGISTRIES.get(PurePath(program).stem)
    if registries and secrets:
        raise _Unsuitable(
            _(
                "{program} downloads into the workspace, so it cannot have secrets: install the "
                "program for the whole system, then choirctl mcp add {name} --secret "
                "VARIABLE=SECRET -- PROGRAM"
            ).format(program=program, name=name)
        )
    if registries:
        entry |= {"workspace": True, "hosts": [*registries]}
        notes.append(_("may use the workspace, and reach no host but the package registry"))
    else:
        notes.append(_("has no network: add the hosts that it needs to `hosts`"))
    notes += [
        _("`{key}` is ignored").format(key=key) for key in ("cwd", "envFile") if item.get(key)
    ]
    return entry


def _environment(
    name: str,
    item: JsonObject,
    entry: JsonObject,
    secrets: dict[str, str | None],
    notes: list[str],
) -> JsonObject:
    """Return the variables that are no secrets; the others become secrets of the entry."""
    variables = item.get("env")
    plain: JsonObject = {}
    keys: JsonObject = {}
    for variable, content in variables.items() if isinstance(variables, dict) else ():
        value = str(content)
        if variable.upper() in RESERVED_VARIABLES:
            notes.append(
                _("the variable {variable} is left out: Choir sets it").format(variable=variable)
            )
        elif looks_like_key(variable, value) or _ASKED_VALUE.match(value):
            keys[variable] = _add_secret(name, variable, value, secrets)
        elif _PLACEHOLDER.search(value):
            raise _Unsuitable(
                _("its variable {variable} refers to something of that program").format(
                    variable=variable[:40]
                )
            )
        else:
            plain[variable] = value
    if keys:
        entry["secrets"] = keys
    return plain


def _add_secret(name: str, purpose: str, value: str, secrets: dict[str, str | None]) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", purpose.lower()).strip("-")
    secret = f"mcp-{name}-{words}"[:MAX_SECRET_NAME].rstrip("-")
    if secret in secrets:
        raise _Unsuitable(
            _("two of its variables would be the secret {secret}").format(secret=secret)
        )
    secrets[secret] = None if _PLACEHOLDER.search(value) or not value else value
    return secret
