"""Run a service as a process: exit code 0 when it ended, and one paragraph when it could not start.

Called by the `__main__` of each service; what it serves is the service's own affair.
"""

import sys
from collections.abc import Callable, Coroutine

import uvloop

from choir_common.errors import StartupError


def run_process(serve: Callable[[], Coroutine[None, None, None]]) -> int:
    """Run `serve` to its end and return the exit code.

    A StartupError is written to standard error, also one inside the group of whatever it brought down.
    """
    try:
        uvloop.run(serve())
    except StartupError as error:
        return _explain(error)
    except ExceptionGroup as group:
        # the task group wraps what stopped it; a start-up error is for a person and stands alone
        found = group.subgroup(StartupError)
        if found is None:
            raise
        return _explain(_first(found))
    return 0


def _explain(error: StartupError) -> int:
    sys.stderr.write(f"{error.message}\n")
    return error.exit_code


def _first(error: ExceptionGroup[StartupError] | StartupError) -> StartupError:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
