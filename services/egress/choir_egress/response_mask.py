"""Mask of keys in responses of servers that repeat them, for example in an error message."""

from collections.abc import Iterable

from choir_common.redactor import Redactor

ENCODING = "latin-1"
"""Maps each byte to one character, so that any response can be searched."""


class ResponseMask:
    """Masks keys in one response while it arrives; holds back only what may be the beginning of a key."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._redactor = Redactor()
        self._redactor.add_secrets(secrets)
        self._rest = ""

    def mask_text(self, text: str) -> str:
        """Return the value of a header field without keys."""
        return self._redactor.redact(text)

    def add(self, data: bytes) -> bytes:
        """Add a piece of the body; return what can be sent now."""
        text = self._rest + data.decode(ENCODING)
        end = self._redactor.finished_length(text)
        self._rest = text[end:]
        return self._redactor.redact(text[:end]).encode(ENCODING)

    def finish(self) -> bytes:
        """Return the end of the body."""
        return self._redactor.redact(self._rest).encode(ENCODING)
