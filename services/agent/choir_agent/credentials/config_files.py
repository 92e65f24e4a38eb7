"""Configuration files for git and ssh; neither contains a secret. Pure."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from choir_common.wire.config import GitIdentityConfig

KEY_MARK = "PRIVATE KEY-----"
HTTPS_PORT = "443"


def is_private_key(secret: str) -> bool:
    """Return whether a secret is a private key; otherwise it is a token."""
    return KEY_MARK in secret


def git_config(
    identity: GitIdentityConfig,
    own: Path,
    ssh_config: Path,
    helper: str,
    *,
    is_proxied: bool = False,
) -> str:
    """Return git's configuration; settings in the user's file `own` apply unless ours override them.

    If `is_proxied`, git sends requests for the identity's hosts to the egress proxy, which adds the token.
    """
    return "\n".join(
        [
            "[include]",
            f"\tpath = {_quoted(str(own))}",
            "[user]",
            f"\tname = {_quoted(identity.name)}",
            f"\temail = {_quoted(identity.email)}",
            "[credential]",
            # An empty value resets the list of helpers configured before.
            "\thelper =",
            f"\thelper = {_quoted(helper)}",
            "[core]",
            f"\tsshCommand = {_quoted(f'ssh -F {shlex.quote(str(ssh_config))}')}",
            "[safe]",
            # A bind-mounted workspace may belong to another user on the host.
            "\tdirectory = *",
            *(_proxied_addresses(identity.hosts) if is_proxied else ()),
            "",
        ]
    )


def _proxied_addresses(hosts: tuple[str, ...]) -> Iterator[str]:
    """Yield settings that turn HTTPS addresses into those for which the proxy speaks TLS."""
    for host in hosts:
        name, _, port = host.lower().partition(":")
        address = f"{name}:{port or HTTPS_PORT}"
        yield f"[url {_quoted(f'http://{address}/')}]"
        yield f"\tinsteadOf = {_quoted(f'https://{address}/')}"
        if address.endswith(f":{HTTPS_PORT}"):
            yield f"\tinsteadOf = {_quoted(f'https://{name}/')}"


def ssh_config(
    hosts: tuple[str, ...],
    known_hosts: Path,
    agent_socket: Path | None,
    proxy_command: str | None = None,
) -> str:
    """Return an ssh configuration that offers the key to `hosts` and to no other host.

    `proxy_command` connects standard input and output with the host and port that follow it. ssh uses the
    first value of each option, so the last block contains the defaults.
    """
    lines: list[str] = []
    names = [name for name in map(_host_name, hosts) if name]
    if names and agent_socket is not None:
        lines += [f"Host {' '.join(names)}", f"    IdentityAgent {_path(agent_socket)}"]
    lines += [
        "Host *",
        "    IdentityAgent none",
        "    IdentityFile none",
        "    ForwardAgent no",
        "    BatchMode yes",
        "    ConnectTimeout 30",
        "    StrictHostKeyChecking accept-new",
        f"    UserKnownHostsFile {_path(known_hosts)}",
        *([f"    ProxyCommand {proxy_command.replace('%', '%%')} %h %p"] if proxy_command else []),
    ]
    return "\n".join([*lines, ""])


def _host_name(host: str) -> str:
    """Return a host as a pattern that matches only itself; empty if it could match more."""
    name = host.partition(":")[0].lower()
    plain = all(letter.isascii() and (letter.isalnum() or letter in ".-_") for letter in name)
    return name if plain else ""


def _path(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
