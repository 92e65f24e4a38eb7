"""Configuration files for git and ssh; neither contains a secret. Pure."""

import shlex
from pathlib import Path

from choir_common.wire.config import GitIdentityConfig

KEY_MARK = "PRIVATE KEY-----"


def is_private_key(secret: str) -> bool:
    """Return whether a secret is a private key; otherwise it is a token."""
    return KEY_MARK in secret


def git_config(identity: GitIdentityConfig, own: Path, ssh_config: Path, helper: str) -> str:
    """Return git's configuration; settings in the user's file `own` apply unless ours override them."""
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
            "",
        ]
    )


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
