"""Start the browser service: `python -m choir_browser`."""

import sys

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB that a service does not
# need.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_browser.app import run  # noqa: E402 - the line above must come first
from choir_browser.settings import BrowserSecrets, BrowserSettings  # noqa: E402
from choir_common.http.listen import stop_on_signals  # noqa: E402
from choir_common.process import run_service_process  # noqa: E402
from choir_common.telemetry import Redactor, configure_logging  # noqa: E402
from choir_common.tracing import export_spans  # noqa: E402


async def serve_until_stopped() -> None:
    """Load the settings and serve until SIGTERM or SIGINT."""
    settings = BrowserSettings.load()
    secrets = settings.read_secrets(BrowserSecrets)
    redactor = Redactor()
    redactor.add_secrets([secrets.nats_token] if secrets.nats_token else [])
    configure_logging("browser", settings.log_level, redactor)
    with export_spans("choir-browser", settings.otlp_endpoint):
        await run(settings, secrets, stop_on_signals())


if __name__ == "__main__":
    sys.exit(run_service_process(serve_until_stopped))
