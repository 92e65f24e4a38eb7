"""Start the browser worker: `python -m choir_browser`."""

import sys

import uvloop

from choir_browser.app import run
from choir_browser.settings import BrowserSecrets, BrowserSettings
from choir_common.errors import StartupError
from choir_common.http.listen import stop_on_signals
from choir_common.telemetry import Redactor, configure_logging


async def serve_until_stopped() -> None:
    """Read the settings and serve until SIGTERM or SIGINT."""
    settings = BrowserSettings.load()
    secrets = settings.read_secrets(BrowserSecrets)
    redactor = Redactor()
    redactor.learn([secrets.nats_token] if secrets.nats_token else [])
    configure_logging("browser", settings.log_level, redactor)
    await run(settings, secrets, stop_on_signals())


def main() -> int:
    """Run the worker; returns the exit code."""
    try:
        uvloop.run(serve_until_stopped())
    except StartupError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
