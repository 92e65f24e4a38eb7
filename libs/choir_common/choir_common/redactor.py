"""Redaction of known secret values in logs, tracebacks and spans.

Each process has one `Redactor`, passed to `telemetry` and `logs`. The module imports little, because the
supervisor and every agent load it. See docs/design/security.md.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, MutableMapping
from urllib.parse import quote

MASK = "[redacted]"
# Shorter values would mask ordinary words.
MIN_SECRET_LENGTH = 6
# A part is only assumed to be secret, so it must be longer than an ordinary word.
MIN_PASSWORD_LENGTH = 8
MIN_KEY_LINE_LENGTH = 16
# OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, Google, Telegram bots, JSON web tokens, private keys
_LIKELY_KEY = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{35}|[0-9]{8,10}:[A-Za-z0-9_-]{35}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s]+(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)


class Redactor:
    """Masking of known secret values: the whole value, its encodings and its parts."""

    def __init__(self) -> None:
        self._values: tuple[str, ...] = ()

    def add_secrets(self, values: Iterable[str]) -> None:
        """Add secret values; values shorter than six characters are ignored.

        For `user:password` the password is added as well, for a private key each of its lines.
        """
        all_values = set(self._values)
        for value in values:
            if len(value) >= MIN_SECRET_LENGTH:
                all_values |= _encodings(value)
                for part in _parts(value):
                    all_values |= _encodings(part)
        # Longest first, so that masking a secret inside another one leaves no remainder.
        self._values = tuple(sorted(all_values, key=len, reverse=True))

    def redact(self, text: str) -> str:
        """Return `text` with every known secret masked."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return text

    def redact_unfinished(self, text: str) -> str:
        """Return the beginning of a text that is still growing, with every known secret masked.

        The end is left out as long as it may be the beginning of a secret.
        """
        return self.redact(text[: self.finished_length(text)])

    def finished_length(self, text: str) -> int:
        """Return how many characters of a growing text cannot be part of a secret that goes on."""
        end = min((_begun(value, text) for value in self._values), default=len(text))
        # Cut before a whole secret that reaches into what is left out.
        while starts := [
            start
            for value in self._values
            if (start := text.find(value, max(0, end - len(value) + 1))) != -1 and start < end
        ]:
            end = min(starts)
        return end

    def __call__(
        self, _: object, __: str, event: MutableMapping[str, object]
    ) -> Mapping[str, object]:
        """Clean a log line; a structlog processor that must run after the traceback is rendered."""
        return {key: self.redact_json(value) for key, value in event.items()}

    def redact_json(self, value: object) -> object:
        """Return a JSON value with every known secret masked, in keys as well."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {
                    self.redact_json(key): self.redact_json(item) for key, item in value.items()
                }
            case list() | tuple():
                return [self.redact_json(item) for item in value]
            case bool() | int() | float() | None:
                return value
            case _:
                return self.redact(str(value))


def redact_secrets(text: str, *secrets: str | None) -> str:
    """Return `text` without these secrets in any form. Use it before text is truncated.

    Truncation could otherwise leave a part of a secret that redaction no longer recognizes.
    """
    redactor = Redactor()
    redactor.add_secrets(secret for secret in secrets if secret)
    return redactor.redact(text)


def _encodings(value: str) -> set[str]:
    """Return a value as it appears in plain text, URLs, headers (base64) and JSON."""
    encoded = base64.b64encode(value.encode()).decode().rstrip("=")
    escaped = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {value, quote(value, safe=""), encoded} | escaped


def _begun(secret: str, text: str) -> int:
    """Return where a secret begins whose rest is missing at the end of a text; else the text's length."""
    start = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while start != -1 and not secret.startswith(text[start:]):
        start = text.find(secret[0], start + 1)
    return len(text) if start == -1 else start


def _parts(value: str) -> list[str]:
    """Return the parts of a value that are secrets on their own."""
    lines = value.splitlines()
    if len(lines) > 1:
        # The first and last line of a key are only its header and footer.
        return [
            line
            for line in map(str.strip, lines)
            if len(line) >= MIN_KEY_LINE_LENGTH and not line.startswith("-----")
        ]
    password = value.partition(":")[2]
    return [password] if len(password) >= MIN_PASSWORD_LENGTH else []


def mask_likely_keys(text: str) -> str:
    """Return `text` with everything masked that has the shape of a well-known kind of key.

    For texts from outside, which may contain secrets that nobody stored in Choir. Words are not guessed:
    only shapes that occur in keys alone are masked.
    """
    return _LIKELY_KEY.sub(MASK, text)
