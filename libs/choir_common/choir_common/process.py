"""Outermost frame of a process: one paragraph and an exit code when it cannot start or fails."""

import sys
from collections.abc import Callable

import structlog

from choir_common.errors import StartupError
from choir_common.redactor import Redactor

FAILED = 1
"""Exit code of a process that an unexpected error ended."""


def run_process(main: Callable[[Redactor], int]) -> int:
    """Run `main` with the process's redactor and return the exit code.

    A StartupError is printed to standard error, also when it is wrapped in an exception group. Any other
    error is logged, once logging is configured.
    """
    redactor = Redactor()
    try:
        return main(redactor)
    except Exception as error:
        startup_error = _find_startup_error(error)
        if startup_error is not None:
            sys.stderr.write(f"{redactor.redact(startup_error.message)}\n")
            return startup_error.exit_code
        if not structlog.is_configured():
            raise
        structlog.get_logger("choir.process").exception("the process failed")
        return FAILED


def _find_startup_error(error: Exception) -> StartupError | None:
    """Return the first StartupError in `error`; a task group wraps the error that stopped it."""
    if isinstance(error, StartupError):
        return error
    if isinstance(error, ExceptionGroup):
        for member in error.exceptions:
            startup_error = _find_startup_error(member)
            if startup_error is not None:
                return startup_error
    return None
