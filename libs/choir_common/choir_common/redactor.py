"""Mask every known secret in whatever is written: logs, tracebacks, spans.

Each process has one `Redactor`; `telemetry` and `logs` get it handed in. It imports next to nothing, since
the supervisor and every agent carry it.
"""

import base64
import json
from collections.abc import Iterable, Mapping, MutableMapping
from urllib.parse import quote

MASK = "[redacted]"
# Shorter values would blank out ordinary words.
SHORTEST_SECRET = 6
# A part is a guess at what is secret in a value, so it has to look less like an ordinary word.
SHORTEST_PASSWORD = 8
SHORTEST_KEY_LINE = 16


class Redactor:
    """Replaces known secret values by a mask: whole, encoded, and in the parts they are used in."""

    def __init__(self) -> None:
        self._values: tuple[str, ...] = ()

    def learn(self, values: Iterable[str]) -> None:
        """Add secret values; those under six characters are ignored.

        Of `user:password` the password is learned as well, of a private key each line.
        """
        known = set(self._values)
        for value in values:
            if len(value) >= SHORTEST_SECRET:
                known |= _forms(value)
                for part in _parts(value):
                    known |= _forms(part)
        # longest first, so that a secret inside another leaves no tail
        self._values = tuple(sorted(known, key=len, reverse=True))

    def clean(self, text: str) -> str:
        """Return `text` with every known secret masked."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return text

    def __call__(
        self, _: object, __: str, event: MutableMapping[str, object]
    ) -> Mapping[str, object]:
        """Clean a log line (a structlog processor that stands after the traceback's rendering)."""
        return {key: self.clean_deep(value) for key, value in event.items()}

    def clean_deep(self, value: object) -> object:
        """Return a value as JSON has them with every known secret masked, in names as well."""
        match value:
            case str():
                return self.clean(value)
            case dict():
                return {self.clean_deep(key): self.clean_deep(item) for key, item in value.items()}
            case list() | tuple():
                return [self.clean_deep(item) for item in value]
            case bool() | int() | float() | None:
                return value
            case _:
                return self.clean(str(value))


def masked(text: str, *secrets: str | None) -> str:
    """Return a text without these secrets in any form: for words that are cut before they are written down.

    A cut would leave a part of a secret that nobody knows any more.
    """
    redactor = Redactor()
    redactor.learn(secret for secret in secrets if secret)
    return redactor.clean(text)


def _forms(value: str) -> set[str]:
    """Return a value as it stands in texts, addresses, headers and JSON."""
    encoded = base64.b64encode(value.encode()).decode().rstrip("=")
    escaped = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {value, quote(value, safe=""), encoded} | escaped


def _parts(value: str) -> list[str]:
    """Return what would still be a secret if it stood alone."""
    lines = value.splitlines()
    if len(lines) > 1:
        # the first and last line of a key only say that it is one
        return [
            line
            for line in map(str.strip, lines)
            if len(line) >= SHORTEST_KEY_LINE and not line.startswith("-----")
        ]
    password = value.partition(":")[2]
    return [password] if len(password) >= SHORTEST_PASSWORD else []
