"""Parsed repository addresses; refuses those that git could interpret in another way. Pure."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.config import Config, GitIdentityConfig, RepoConfig

SourceProtocol = Literal["https", "ssh", "file", "folder"]
GLOBAL_OWNER = "global"
FOLDER_CONTENTS = ("tools", "skills", "identity")
"""Folders that are read from an agent's folder; Choir writes other files next to them."""

_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]*"
# `user@host:path`; not `x::y`, which git takes for a remote helper that runs a command.
_SCP = re.compile(rf"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?{_HOST}:(?!:)(?!//)[^:\s-][^\s]*")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class RepositorySource:
    """A repository's address, and the ref that is followed."""

    owner: str
    """`global`, or the id of the agent that the repository belongs to."""
    url: str
    ref: str
    protocol: SourceProtocol
    """The only protocol that git may use for it."""
    identity: GitIdentityConfig | None = None
    """Identity with the credential; None for a public repository or one opened by the user's ssh-agent."""

    @property
    def local_ref(self) -> str:
        """Return the mirror's ref for this address and ref; each combination has its own."""
        digest = hashlib.sha256(f"{self.url}\n{self.ref}".encode()).hexdigest()
        return f"refs/choir/{digest[:24]}"

    @property
    def host(self) -> str:
        """Return the server's name, with its port if the address has one; empty for a local path."""
        if self.protocol in ("file", "folder"):
            return ""
        if "://" in self.url:
            return urlsplit(self.url).netloc.rpartition("@")[2].casefold()
        return self.url.partition(":")[0].rpartition("@")[2].casefold()

    @property
    def host_names(self) -> frozenset[str]:
        """Return the names that an identity's `hosts` may contain; for ssh also without the port."""
        return frozenset(
            {self.host, self.host.partition(":")[0]} if self.protocol == "ssh" else {self.host}
        )

    @property
    def display_name(self) -> str:
        """Return a description for people."""
        if self.protocol == "folder":
            return f"the folder {self.url}"
        return (
            "the global repository"
            if self.owner == GLOBAL_OWNER
            else f"the repository of {self.owner}"
        )


def configured_source(config: Config, owner: str) -> RepositorySource | None:
    """Return the repository of an agent, or the global one, with the identity for it.

    Raises InvalidRequest as `find_source` does.
    """
    if owner == GLOBAL_OWNER:
        repo, own = config.global_repo, None
    else:
        repo, own = config.agents[owner].repo, config.agents[owner].defaults.git_identity
    name = (repo and repo.git_identity) or own
    return parse_source(owner, repo, config.git_identities.get(name or ""))


def folder_source(home: Path, owner: str) -> RepositorySource | None:
    """Return `$CHOIR_HOME/agents/ID` for an agent without a repository, or None if it has no contents."""
    folder = home / "agents" / owner
    if owner == GLOBAL_OWNER or not any((folder / name).is_dir() for name in FOLDER_CONTENTS):
        return None
    return RepositorySource(owner, str(folder), "", "folder")


def parse_source(
    owner: str, repo: RepoConfig | None, identity: GitIdentityConfig | None = None
) -> RepositorySource | None:
    """Return the source that `repo` names, or None if it names none.

    Raises InvalidRequest for an invalid address or ref.
    """
    if repo is None or not repo.url.strip():
        return None
    ref = repo.ref
    if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", ".")):
        raise InvalidRequest(
            _(
                "The ref {ref!r} of {owner}'s repository is not a valid branch, tag or commit."
            ).format(ref=ref[:80], owner=owner)
        )
    return RepositorySource(owner, repo.url, ref, _protocol(owner, repo.url), identity)


def _protocol(owner: str, url: str) -> SourceProtocol:
    if _CONTROL.search(url) or len(url) > 2_000:
        raise InvalidRequest(
            _(
                "The address of {owner}'s repository contains a space or a control character."
            ).format(owner=owner)
        )
    if url.startswith("/"):
        return "file"
    if "://" in url:
        return _of_url(owner, url)
    if _SCP.fullmatch(url):
        return "ssh"
    raise InvalidRequest(_invalid_address_text(owner, url))


def _of_url(owner: str, url: str) -> SourceProtocol:
    try:
        parts = urlsplit(url)
        host, password, _port = parts.hostname or "", parts.password, parts.port
    except ValueError:
        raise InvalidRequest(_invalid_address_text(owner, url)) from None
    # config.json, logs and error texts must not contain credentials
    if password or (parts.scheme == "https" and parts.username):
        raise InvalidRequest(
            _(
                "The address of {owner}'s repository contains a credential. config.json must not contain "
                "secrets: name one of git_identities in its `git_identity`."
            ).format(owner=owner)
        )
    if parts.scheme == "file" and not host and parts.path.startswith("/"):
        return "file"
    if parts.scheme in ("https", "ssh") and re.fullmatch(_HOST, host):
        return "https" if parts.scheme == "https" else "ssh"
    raise InvalidRequest(_invalid_address_text(owner, url))


def _invalid_address_text(owner: str, url: str) -> str:
    return (
        f"{url.split('@')[-1][:120]!r} is not the address of a repository ({owner}). Write "
        "https://host/path, ssh://user@host/path, user@host:path or /a/local/path."
    )
