"""Entry point of the browser service: `python -m choir_browser`."""

import sys

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB that a service does not
# need.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_browser.app import run_browser  # noqa: E402 - the line above must come first
from choir_browser.settings import BrowserSecrets, BrowserSettings  # noqa: E402
from choir_common.service import run_service  # noqa: E402

if __name__ == "__main__":
    sys.exit(
        run_service(
            run_browser,
            settings_type=BrowserSettings,
            secrets_type=BrowserSecrets,
            log_source="browser",
            span_service="choir-browser",
        )
    )
