"""Write structured logs, through the one redactor.

`configure_logging` is called once by each `__main__`; everybody else uses `structlog.get_logger`.
Secrets registered with the `Redactor` never reach a line, whether in a field, a message or a traceback.
"""

import base64
import json
import logging
import sys
from collections.abc import Iterable
from urllib.parse import quote

# structlog loads rich when it finds it, for coloured tracebacks: 5 MB that no service uses. None forbids it,
# until structlog is there; whoever wants rich itself still gets it.
_WITHOUT_RICH = sys.modules.setdefault("rich", None) is None  # type: ignore[arg-type]

import structlog  # noqa: E402 - the lines above must come first
from structlog.typing import EventDict, WrappedLogger  # noqa: E402

if _WITHOUT_RICH:
    del sys.modules["rich"]

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

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        """Clean a log line (a structlog processor that stands after the traceback's rendering)."""
        return {key: self._deep(value) for key, value in event.items()}

    def _deep(self, value: object) -> object:
        match value:
            case str():
                return self.clean(value)
            case dict():
                return {key: self._deep(item) for key, item in value.items()}
            case list() | tuple():
                return [self._deep(item) for item in value]
            case bool() | int() | float() | None:
                return value
            case _:
                return self.clean(str(value))


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


def configure_logging(source: str, level: str, redactor: Redactor) -> None:
    """Send JSON lines to standard error: timestamp, level, source, message (spec 22.2)."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
            structlog.processors.EventRenamer("message"),
            lambda _, __, event: {"source": source, **event},
            structlog.processors.format_exc_info,
            redactor,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_ToStructlog()], force=True)


class _ToStructlog(logging.Handler):
    """Carries the libraries' own log records into ours."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
