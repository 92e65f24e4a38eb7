"""Responses to git's credential requests. Pure. Called by `door`.

The protocol is that of git-credential(1): lines of `key=value`.
"""

from dataclasses import dataclass

from choir_common.wire.config import GitIdentityConfig

MAX_QUESTION = 8_192
HTTPS_PORT = ":443"


@dataclass(frozen=True, slots=True)
class GitCredential:
    """A git identity and its token; None if its secret is a private key, or missing."""

    identity: GitIdentityConfig
    token: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Response to git: either the credential, or a refusal that git prints on standard error."""

    text: str = ""
    refusal: str = ""


def answer_to(question: str, credential: GitCredential | None) -> Answer:
    """Return the credential for an allowed host over HTTPS, else the reason for the refusal."""
    fields = _parse(question) if len(question) <= MAX_QUESTION else None
    if fields is None:
        return Answer(refusal="the question is malformed")
    if credential is None:
        return Answer(refusal="this agent has no git identity")
    if fields.get("protocol") != "https":
        return Answer(refusal=f"credentials go over https only, not {fields.get('protocol', '')!r}")
    host = fields.get("host", "")
    if not allows(credential.identity.hosts, host):
        allowed = ", ".join(credential.identity.hosts) or "none"
        return Answer(refusal=f"the git identity is not for the host {host!r} (allowed: {allowed})")
    if credential.token is None:
        return Answer(refusal="the git identity has no token for https")
    if not _fits_a_line(credential.token):
        return Answer(refusal="the git identity's token has more than one line")
    username = fields.get("username") or credential.identity.username
    return Answer(text=f"username={username}\npassword={credential.token}\n")


def allows(hosts: tuple[str, ...], host: str) -> bool:
    """Return whether `host`, with or without a port, is one of `hosts`. Suffixes do not match."""
    asked = host.lower().removesuffix(HTTPS_PORT)
    return bool(asked) and asked in {name.lower().removesuffix(HTTPS_PORT) for name in hosts}


def _parse(question: str) -> dict[str, str] | None:
    fields: dict[str, str] = {}
    for line in question.split("\n"):
        if not line:
            continue
        key, separator, value = line.partition("=")
        # Repeated keys and control characters are tricks to make one host look like another.
        repeated = key in fields and not key.endswith("[]")
        if not separator or repeated or not value.isprintable():
            return None
        fields[key] = value
    return fields


def _fits_a_line(token: str) -> bool:
    return bool(token) and token.isprintable()
