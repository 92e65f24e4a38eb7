"""Entry point of choird: `python -m choir_control`.

Exits 0 after SIGTERM or SIGINT; exits 1 with one paragraph on standard error when it cannot start; exits 75
when another control process has taken over.
"""

import asyncio
import os
import sys

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB and 0.1 s that a service does not
# need. The imports below must come after this line.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_common.http.listen import stop_on_signals  # noqa: E402
from choir_common.logs.file import LogFile  # noqa: E402
from choir_common.logs.retention import LogLimitsReader  # noqa: E402
from choir_common.redactor import Redactor  # noqa: E402
from choir_common.service import run_service  # noqa: E402
from choir_control.agents.runtimes.factory import make_runtime  # noqa: E402
from choir_control.app import ControlApp  # noqa: E402
from choir_control.settings import ControlSecrets, ControlSettings, check_exposure  # noqa: E402

CLOSE_TIMEOUT_S = 15.0
"""Time to close everything after the agents have stopped, in seconds.

With `agents_stop_s` it stays below the 65 s after which the supervisor kills the process.
"""


async def serve_until_stopped(
    settings: ControlSettings, secrets: ControlSecrets, redactor: Redactor
) -> None:
    """Serve until SIGTERM or SIGINT; a second signal shortens the shutdown."""
    check_exposure(settings, secrets)
    runtime = make_runtime(settings, secrets, redactor)
    stop_fast = asyncio.Event()
    stop = stop_on_signals(stop_fast, settings.agents_stop_s + CLOSE_TIMEOUT_S)
    # Without a clean end: this process may no longer write, and the new leader cleans up.
    app = ControlApp(settings, secrets, runtime, redactor=redactor, end_at_once=os._exit)
    await app.run(stop, stop_fast)


def _open_log(settings: ControlSettings) -> LogFile | None:
    """Return choird.log, or None if a supervisor writes that file."""
    if not settings.keep_log:
        return None
    return LogFile(settings.home / "logs", "choird", LogLimitsReader(settings.config_file))


if __name__ == "__main__":
    sys.exit(
        run_service(
            serve_until_stopped,
            settings_type=ControlSettings,
            secrets_type=ControlSecrets,
            log_source="choird",
            span_service="choird",
            open_log=_open_log,
        )
    )
