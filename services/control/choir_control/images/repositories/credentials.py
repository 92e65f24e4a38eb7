"""Credentials of private repositories, provided to git for one run.

The token or key is in anonymous memory (memfd): not on disk, in an argument or in an
environment. Only that git process and its children have it open, and git uses it only for the
identity's hosts.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_control.configuration.secrets.store import SecretStore
from choir_control.images.repositories.source import RepositorySource

# BatchMode: refuse unknown hosts and passwords instead of prompting
SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=15", "-oPermitLocalCommand=no")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class GitCredentials:
    """Provider of credentials for private repositories."""

    secrets: SecretStore | None = None
    known_hosts: Path | None = None
    """Host keys of ssh servers, in addition to the user's own."""

    @contextlib.contextmanager
    def provide(self, source: RepositorySource | None) -> Iterator["GitAccess"]:
        """Provide the credential of `source` for the block; none if it has no identity."""
        descriptors: list[int] = []
        try:
            yield self._make_access(source, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _make_access(self, source: RepositorySource | None, descriptors: list[int]) -> "GitAccess":
        ssh = [*SSH, *self._host_keys()]
        if source is None or source.identity is None or source.protocol == "file":
            return GitAccess(_join(ssh))
        identity = source.identity
        # checked before the secret is read: it must never reach another host
        if not source.host_names & {host.casefold() for host in identity.hosts}:
            return GitAccess(
                _join(ssh),
                refusal=f"The git identity of {source.owner} is not for {source.host}: add it to `hosts`.",
            )
        value = self.secrets.get(identity.secret) if self.secrets is not None else None
        secret = (value or "").strip()
        if not secret:
            return GitAccess(
                _join(ssh),
                refusal=f"The secret {identity.secret!r} has no value: choirctl secret set "
                f"{identity.secret}, then choirctl secret apply.",
            )
        if source.protocol == "https":
            return _provide_token(_join(ssh), source, identity.username, secret, descriptors)
        return _provide_key(ssh, secret, descriptors)

    def _host_keys(self) -> tuple[str, ...]:
        if self.known_hosts is None:
            return ()
        # quoted like ssh's own configuration, because one option contains several files
        return (f'-oUserKnownHostsFile=~/.ssh/known_hosts "{self.known_hosts}"',)


@dataclass(frozen=True, slots=True)
class GitAccess:
    """Git settings that give one run access to a credential."""

    ssh_command: str
    """The ssh command for git."""
    settings: tuple[str, ...] = ()
    """Additional git settings; they contain no secret."""
    descriptors: tuple[int, ...] = ()
    """File descriptors of the memory that git and its children inherit."""
    refusal: str = ""
    """Why no credential is provided; added to the error if git fails."""


def _provide_token(
    ssh: str, source: RepositorySource, username: str, token: str, descriptors: list[int]
) -> GitAccess:
    if _CONTROL.search(token) or _CONTROL.search(username):
        return GitAccess(
            ssh, refusal="Its git identity's secret is not a token, which HTTPS requires."
        )
    memory = _write_to_memory(f"username={username}\npassword={token}\n", descriptors)
    # Git itself limits the helper to this address: after a redirect to another host it is not called.
    answer = f'!f() {{ test "$1" = get && cat /proc/self/fd/{memory}; }}; f'
    return GitAccess(ssh, (f"credential.https://{source.host}.helper={answer}",), (memory,))


def _provide_key(ssh: list[str], key: str, descriptors: list[int]) -> GitAccess:
    if "PRIVATE KEY-----" not in key:
        return GitAccess(
            _join(ssh),
            refusal="Its git identity's secret is not a private key, which SSH requires.",
        )
    # ssh rejects a key without a final line break
    memory = _write_to_memory("\n".join(key.splitlines()) + "\n", descriptors)
    # ssh closes inherited descriptors, so it reads the key from its parent, git
    own = f"-oIdentitiesOnly=yes -oIdentityAgent=none -oIdentityFile=/proc/$PPID/fd/{memory}"
    return GitAccess(f"{_join(ssh)} {own}", descriptors=(memory,))


def _write_to_memory(content: str, descriptors: list[int]) -> int:
    descriptor = os.memfd_create("credential")
    descriptors.append(descriptor)
    os.fchmod(descriptor, 0o400)
    os.write(descriptor, content.encode())
    return descriptor


def _join(command: list[str]) -> str:
    return shlex.join(command)
