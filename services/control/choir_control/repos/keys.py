"""Lend git the credential of a private repository, for one run (spec 14.4).

Called by `git`. The token or key lies in memory that has no name: not on disk, not in an argument, not in an
environment. Only that git and what it starts have it open, and it is asked for by the host it is for.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_control.repos.source import Source

# BatchMode: no question about an unknown host, no password; both are refusals
SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=15", "-oPermitLocalCommand=no")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _none(_: str) -> str | None:
    """Know no secret."""
    return None


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens private repositories."""

    secret_of: Callable[[str], str | None] = _none
    """Returns the value of a named secret, none if it is not set."""
    known_hosts: Path | None = None
    """Host keys of ssh servers, beside those this user knows."""

    @contextlib.contextmanager
    def lend(self, source: Source | None) -> Iterator["Lent"]:
        """Lend what opens `source` while the block runs; nothing where it has no identity."""
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
        # as ssh's own configuration quotes: more than one file stands in one word
        return (f'-oUserKnownHostsFile=~/.ssh/known_hosts "{self.known_hosts}"',)


@dataclass(frozen=True, slots=True)
class Lent:
    """How one run of git gets at a credential."""

    ssh: str
    """The command git starts for ssh."""
    settings: tuple[str, ...] = ()
    """Further configuration; no secret is in it."""
    descriptors: tuple[int, ...] = ()
    """Memory that git and what it starts inherit."""
    refusal: str = ""
    """Why it goes without the credential it was to have; said when it fails."""


def _lend_token(ssh: str, source: Source, username: str, token: str, held: list[int]) -> Lent:
    if _CONTROL.search(token) or _CONTROL.search(username):
        return Lent(ssh, refusal="Its git identity's secret is no token, which HTTPS needs.")
    memory = _memory(f"username={username}\npassword={token}\n", held)
    # bound to this address by git itself: a redirect to another host asks in vain
    answer = f'!f() {{ test "$1" = get && cat /proc/self/fd/{memory}; }}; f'
    return Lent(ssh, (f"credential.https://{source.host}.helper={answer}",), (memory,))


def _lend_key(ssh: list[str], key: str, held: list[int]) -> Lent:
    if "PRIVATE KEY-----" not in key:
        return Lent(
            _words(ssh), refusal="Its git identity's secret is no private key, which SSH needs."
        )
    # a key without its last line break is none to ssh
    memory = _memory("\n".join(key.splitlines()) + "\n", held)
    # ssh closes what it inherits, so it reads what its parent, git, has open
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
