"""Entry point of the egress service: `python -m choir_egress`."""

import sys

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB that a service does not
# need.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_common.service import run_service  # noqa: E402 - the line above must come first
from choir_egress.app import run_egress  # noqa: E402
from choir_egress.settings import EgressSecrets, EgressSettings  # noqa: E402

if __name__ == "__main__":
    sys.exit(
        run_service(
            run_egress,
            settings_type=EgressSettings,
            secrets_type=EgressSecrets,
            log_source="egress",
            span_service="choir-egress",
        )
    )
