"""Run a service as a process: exit code 0 when it ended, and one paragraph when it could not start.

Called by the `__main__` of each service; what it serves is the service's own affair.
"""

import gc
import sys
from collections.abc import Callable, Coroutine

import uvloop

from choir_common.errors import StartupError

GARBAGE_AFTER = (10_000, 20, 20)
"""Objects that are new before the youngest are looked through, and such looks before the older ones are."""


def run_process(serve: Callable[[], Coroutine[None, None, None]]) -> int:
    """Run `serve` to its end and return the exit code.

    What was imported is never looked through for garbage again, and the rest more seldom than by default:
    that was a tenth of a search in memory.

    A StartupError is written to standard error, also one inside the group of whatever it brought down.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_AFTER)
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
