"""Entry point of choird: `python -m choir_control`.

Run by the embedded supervisor and by compose. Exits 0 after SIGTERM or SIGINT; exits 1 with one
paragraph on standard error when it cannot start.
"""

import asyncio
import sys
from collections.abc import Callable

from choir_common.http.listen import stop_on_signals
from choir_common.logs.file import LogFile
from choir_common.logs.retention import LogLimitsReader
from choir_common.process import run_service_process
from choir_common.telemetry import Redactor, configure_logging
from choir_common.tracing import export_spans
from choir_control.agents.runtimes.factory import make_runtime
from choir_control.app import ControlApp
from choir_control.settings import ControlSecrets, ControlSettings, check_exposure

CLOSE_TIMEOUT_S = 15.0
"""Time to close everything after the agents have stopped, in seconds.

With `agents_stop_s` it stays below the 65 s after which the supervisor kills the process.
"""


async def serve_until_stopped() -> None:
    """Load the settings and serve until SIGTERM or SIGINT; a second signal shortens the shutdown."""
    settings = ControlSettings.load()
    secrets = settings.read_secrets(ControlSecrets)
    check_exposure(settings, secrets)
    redactor = Redactor()
    redactor.add_secrets(secrets.values())
    configure_logging("choird", settings.log_level, redactor, _log_writer(settings))
    with export_spans("choird", settings.otlp_endpoint):
        runtime = make_runtime(settings, redactor.redact)
        hurry = asyncio.Event()
        stop = stop_on_signals(hurry, settings.agents_stop_s + CLOSE_TIMEOUT_S)
        await ControlApp(settings, secrets, runtime, redactor).run(stop, hurry)


def _log_writer(settings: ControlSettings) -> Callable[[bytes], None] | None:
    """Return the writer of choird.log, or None if a supervisor writes that file."""
    if not settings.keep_log:
        return None
    return LogFile(settings.home / "logs", "choird", LogLimitsReader(settings.config_file)).write


if __name__ == "__main__":
    sys.exit(run_service_process(serve_until_stopped))
