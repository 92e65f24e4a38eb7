"""Keys that the egress proxy adds, so that an agent gets placeholders for them.

An agent keeps a secret itself if something else than an HTTP request of the proxy needs it: mail, ssh, or an
external tool that receives it on standard input.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from choir_common.egress.key_placeholders import key_placeholder
from choir_common.identity_dir import TOOLS_DIR
from choir_common.wire.config import AgentSettings
from choir_common.wire.egress import ProxiedKey
from choir_common.wire.repository_files import ToolManifestFile
from choir_control.configuration.servers import network_address

GIT_TOOLS = ("choir.exec",)
"""Tools whose programs use the agent's git identity."""
TOOL_RESOURCES = frozenset({"git_identity", "notion", "email", "search", "voice_profile"})
"""The resources whose secrets a manifest can name."""
_FITS_A_HEADER = re.compile(r"[\x21-\x7e]{6,10000}")
"""Values that a header can contain, and that are long enough to be masked in responses."""

_SERVER = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\]):[0-9]{1,5}")
_GIT_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,4}|:[1-5][0-9]{4})?")


@dataclass(frozen=True, slots=True)
class _KeyUse:
    """A use of a secret; `server` is empty if the proxy cannot add it there."""

    secret: str | None
    resource: str
    server: str
    tools: tuple[str, ...] = ()


def proxied_keys(
    settings: AgentSettings,
    egress_key: str,
    values: Mapping[str, str],
    tool_resources: frozenset[str],
) -> dict[str, ProxiedKey]:
    """Return the keys that the proxy adds, by the name of their secret.

    `values` are the secrets that have a value. `tool_resources` are those whose secrets external tools get.
    """
    uses: dict[str, list[_KeyUse]] = {}
    for use in _uses(settings):
        if use.secret and use.secret in values:
            uses.setdefault(use.secret, []).append(use)
    return {
        name: ProxiedKey(
            placeholder=key_placeholder(egress_key, name),
            value=values[name],
            servers=tuple(sorted({use.server for use in of_secret})),
            tools=tuple(sorted({tool for use in of_secret for tool in use.tools})),
        )
        for name, of_secret in sorted(uses.items())
        if _FITS_A_HEADER.fullmatch(values[name])
        and all(use.server and use.resource not in tool_resources for use in of_secret)
    }


def read_tool_resources(choir_dir: Path) -> frozenset[str]:
    """Return the resources whose secrets the external tools in `choir_dir` receive; blocking.

    The agent refuses to start with a manifest that is not valid, so such a one is skipped.
    """
    resources: set[str] = set()
    for path in (choir_dir / TOOLS_DIR).rglob("*.json"):
        try:
            manifest = ToolManifestFile.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue
        resources |= set(manifest.runtime.secret_resources)
    return frozenset(resources)


def _uses(settings: AgentSettings) -> Iterator[_KeyUse]:
    models = (
        settings.model,
        settings.core_model,
        settings.vision_model,
        *settings.fallback_models.values(),
    )
    for model in models:
        if model is not None:
            yield _KeyUse(model.secret, "", _server(model.endpoint))
    if settings.transcription is not None:
        config = settings.transcription.config
        yield _KeyUse(config.secret, "", _server(config.endpoint))
    if settings.voice is not None:
        tts = settings.voice.tts
        yield _KeyUse(tts.secret, "voice_profile", _server(tts.endpoint))
    if settings.notion is not None:
        yield _KeyUse(settings.notion.secret, "notion", _server(settings.notion.endpoint))
    if settings.search is not None:
        yield _KeyUse(settings.search.secret, "search", _server(settings.search.endpoint))
    for mcp_server in settings.mcp.values():
        if mcp_server.url is not None:
            yield _KeyUse(mcp_server.token_secret, "", _server(mcp_server.url))
        for name in mcp_server.secrets.values():
            yield _KeyUse(name, "mcp", "")
    for harness in settings.harnesses.values():
        for name in harness.secrets.values():
            yield _KeyUse(name, "harness", "")
    if settings.email is not None:
        yield _KeyUse(settings.email.secret, "email", "")
    if settings.git_identity is not None:
        for host in settings.git_identity.hosts:
            # A token must not reach more than the hosts that the identity names, so other forms stay.
            server = _server(f"https://{host}") if _GIT_HOST.fullmatch(host) else ""
            yield _KeyUse(settings.git_identity.secret, "git_identity", server, GIT_TOOLS)


def _server(url: str) -> str:
    """Return `scheme://host:port` of a URL; empty if it has none, or an unusual host."""
    server = f"{urlsplit(url).scheme}://{network_address(url)}"
    return server if _SERVER.fullmatch(server) else ""
