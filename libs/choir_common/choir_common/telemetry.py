"""Structured logging through the process's redactor.

Each `__main__` calls `configure_logging` once; all other modules use `structlog.get_logger`. Secrets that
the `Redactor` knows never reach a log line, whether in a field, the message or a traceback.
"""

import contextlib
import logging
import sys
from typing import Protocol

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB that no service uses. A None
# entry in sys.modules prevents the import while structlog loads; later imports of rich still work.
_WITHOUT_RICH = sys.modules.setdefault("rich", None) is None  # type: ignore[arg-type]

import structlog  # noqa: E402 - the lines above must come first

from choir_common.redactor import MASK, Redactor  # noqa: E402

if _WITHOUT_RICH:
    del sys.modules["rich"]

__all__ = ["MASK", "LogTarget", "Redactor", "configure_logging"]


class LogTarget(Protocol):
    """Target of log lines."""

    def write(self, line: bytes) -> None:
        """Write one line, with its line feed."""


def configure_logging(
    source: str, level: str, redactor: Redactor, log_file: LogTarget | None = None
) -> None:
    """Log JSON lines to standard error: timestamp, level, source, message.

    `log_file` receives every line as well, for a process whose standard error is not captured in a file.
    """
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
        logger_factory=structlog.WriteLoggerFactory(_StderrWriter(log_file)),  # type: ignore[arg-type] # it only writes
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_StructlogHandler()], force=True)


class _StderrWriter:
    """Standard error as a log target; write errors are ignored if the reader is gone."""

    def __init__(self, log_file: LogTarget | None) -> None:
        self._log_file = log_file

    def write(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line)
        if self._log_file is not None:
            self._log_file.write(line.encode())

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


class _StructlogHandler(logging.Handler):
    """Logging handler that forwards the log records of libraries to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
