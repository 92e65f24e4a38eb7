"""Host names that a text contains, and patterns of known hosts. Pure.

A host is new to an agent until a person has named it or agreed to it. See docs/design/policy.md.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

# Each pattern begins at a boundary and repeats one class of characters, so that the time is linear.
_URL = re.compile(r"(?:https?|ssh|git|ftp)://([^\s/?#<>\"'`|\\]{1,600})", re.IGNORECASE)
_OF_GIT = re.compile(r"(?<![\w.-])[\w.-]{1,64}@([a-z0-9.-]{3,253}):", re.IGNORECASE | re.ASCII)
_ALONE = re.compile(r"(?<![\w@./:-])[a-z0-9.-]{3,254}(?![\w@-])", re.IGNORECASE | re.ASCII)
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
HOST_PATTERN = r"^[a-z0-9.-]{1,253}$"
"""Names and IPv4 addresses about which a person can be asked; none of them is a pattern."""
_COMMON = ("com", "org", "net", "edu", "gov", "eu", "io", "dev", "app")
_ENDINGS = frozenset((*_COMMON, "ch", "de", "at", "fr", "it", "es", "nl", "uk", "us", "ca", "au"))
"""Other endings are also those of files, such as `main.py`: such a host needs a URL to be named."""
_WWW = "www."


def find_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts that a text names: in URLs, in addresses of git, or alone (`example.com`)."""
    alone = (match[0] for match in _ALONE.finditer(text))
    candidates = (
        *_authorities(text),
        *(match[1] for match in _OF_GIT.finditer(text)),
        *(name for name in alone if _is_host_alone(name.lower().rstrip("."))),
    )
    return _valid(candidates)


def find_url_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of the URLs in a text."""
    return _valid(_authorities(text))


def can_be_asked(host: str) -> bool:
    """Return whether a person can be asked about a host; a program may connect to any text."""
    return re.match(HOST_PATTERN, host) is not None


def is_known_host(host: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches a host; with and without `www.` it is the same host."""
    name = _plain(host)
    return any(fnmatchcase(name, _plain(pattern)) for pattern in patterns)


def _authorities(text: str) -> Iterator[str]:
    for match in _URL.finditer(text):
        yield match[1].rpartition("@")[2].partition(":")[0]


def _is_host_alone(name: str) -> bool:
    return name.startswith(_WWW) or name.rpartition(".")[2] in _ENDINGS


def _valid(candidates: Iterable[str]) -> tuple[str, ...]:
    hosts = (name.lower().strip(".,;!)]}*_") for name in candidates)
    return tuple(dict.fromkeys(host for host in hosts if _HOST.fullmatch(host)))


def _plain(host: str) -> str:
    return host.lower().rstrip(".").removeprefix(_WWW)
