"""Credentials of private repositories, provided to git for one run.

Called by `git`. The token or key is in anonymous memory (memfd): not on disk, in an argument or in an
environment. Only that git process and its children have it open, and git uses it only for the
identity's hosts.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_control.repos.source import Source

# BatchMode: refuse unknown hosts and passwords instead of prompting
SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=15", "-oPermitLocalCommand=no")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _none(_: str) -> str | None:
    """Return None for every name: the default without a vault."""
    return None


@dataclass(frozen=True, slots=True)
class Keys:
    """Provider of credentials for private repositories."""

    secret_of: Callable[[str], str | None] = _none
    """Returns the value of a named secret, or None if it is not set."""
    known_hosts: Path | None = None
    """Host keys of ssh servers, in addition to the user's own."""

    @contextlib.contextmanager
    def lend(self, source: Source | None) -> Iterator["Lent"]:
        """Provide the credential of `source` for the block; none if it has no identity."""
        held: list[int] = []
        try:
            yield self._lent(source, held)
        finally:
            for descriptor in held:
                os.close(descriptor)

    def _lent(self, source: Source | None, held: list[int]) -> "Lent":
        ssh = [*SSH, *self._host_keys()]
        if source is None or source.identity is None or source.protocol == "file":
            return Lent(_words(ssh))
        identity = source.identity
        # checked before the secret is read: it must never reach another host
        if not source.names & {host.casefold() for host in identity.hosts}:
            return Lent(
                _words(ssh),
                refusal=f"The git identity of {source.owner} is not for {source.host}: add it to `hosts`.",
            )
        secret = (self.secret_of(identity.secret) or "").strip()
        if not secret:
            return Lent(
                _words(ssh),
                refusal=f"The secret {identity.secret!r} has no value: choirctl secret set "
                f"{identity.secret}, then choirctl secret apply.",
            )
        if source.protocol == "https":
            return _lend_token(_words(ssh), source, identity.username, secret, held)
        return _lend_key(ssh, secret, held)

    def _host_keys(self) -> tuple[str, ...]:
        if self.known_hosts is None:
            return ()
        # quoted like ssh's own configuration, because one option contains several files
        return (f'-oUserKnownHostsFile=~/.ssh/known_hosts "{self.known_hosts}"',)


@dataclass(frozen=True, slots=True)
class Lent:
    """Git settings that give one run access to a credential."""

    ssh: str
    """The ssh command for git."""
    settings: tuple[str, ...] = ()
    """Additional git settings; they contain no secret."""
    descriptors: tuple[int, ...] = ()
    """File descriptors of the memory that git and its children inherit."""
    refusal: str = ""
    """Why no credential is provided; added to the error if git fails."""


def _lend_token(ssh: str, source: Source, username: str, token: str, held: list[int]) -> Lent:
    if _CONTROL.search(token) or _CONTROL.search(username):
        return Lent(ssh, refusal="Its git identity's secret is no token, which HTTPS needs.")
    memory = _memory(f"username={username}\npassword={token}\n", held)
    # Git itself limits the helper to this address: after a redirect to another host it is not called.
    answer = f'!f() {{ test "$1" = get && cat /proc/self/fd/{memory}; }}; f'
    return Lent(ssh, (f"credential.https://{source.host}.helper={answer}",), (memory,))


def _lend_key(ssh: list[str], key: str, held: list[int]) -> Lent:
    if "PRIVATE KEY-----" not in key:
        return Lent(
            _words(ssh), refusal="Its git identity's secret is no private key, which SSH needs."
        )
    # ssh rejects a key without a final line break
    memory = _memory("\n".join(key.splitlines()) + "\n", held)
    # ssh closes inherited descriptors, so it reads the key from its parent, git
    own = f"-oIdentitiesOnly=yes -oIdentityAgent=none -oIdentityFile=/proc/$PPID/fd/{memory}"
    return Lent(f"{_words(ssh)} {own}", descriptors=(memory,))


def _memory(content: str, held: list[int]) -> int:
    descriptor = os.memfd_create("credential")
    held.append(descriptor)
    os.fchmod(descriptor, 0o400)
    os.write(descriptor, content.encode())
    return descriptor


def _words(command: list[str]) -> str:
    return shlex.join(command)
