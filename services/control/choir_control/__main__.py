"""Start choird: `python -m choir_control`.

Run by the embedded supervisor and by compose. Exits 0 after SIGTERM or SIGINT, 1 with one paragraph on
standard error when it cannot start.
"""

import asyncio
import sys
from collections.abc import Callable

import uvloop

from choir_common.errors import StartupError
from choir_common.http.listen import stop_on_signals
from choir_common.logs.file import LogFile
from choir_common.logs.limits import FileLimits
from choir_common.telemetry import Redactor, configure_logging
from choir_common.tracing import exporting
from choir_control.app import Control
from choir_control.runtimes.choose import choose_runtime
from choir_control.settings import ControlSecrets, ControlSettings, check_exposure


def main() -> int:
    """Run until told to stop; return the exit code."""
    try:
        settings = ControlSettings.load()
        secrets = settings.read_secrets(ControlSecrets)
        check_exposure(settings, secrets)
        redactor = Redactor()
        redactor.learn(secrets.values())
        configure_logging("choird", settings.log_level, redactor, _keeper(settings))
        with exporting("choird", settings.otlp_endpoint):
            uvloop.run(_serve(settings, secrets, redactor))
    except StartupError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 a person reads this
        return error.exit_code
    return 0


def _keeper(settings: ControlSettings) -> Callable[[bytes], None] | None:
    """Return what writes choird.log where no supervisor does (spec 6.3)."""
    if not settings.keep_log:
        return None
    return LogFile(settings.home / "logs", "choird", FileLimits(settings.config_file)).write


async def _serve(settings: ControlSettings, secrets: ControlSecrets, redactor: Redactor) -> None:
    control = Control(settings, secrets, choose_runtime(settings, redactor.clean), redactor)
    hurry = asyncio.Event()
    try:
        await control.run(stop_on_signals(hurry), hurry)
    except ExceptionGroup as group:
        # the task group wraps what stopped it; a start-up error is for a person and stands alone
        found = group.subgroup(StartupError)
        if found is None:
            raise
        raise _innermost(found) from None


def _innermost(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
