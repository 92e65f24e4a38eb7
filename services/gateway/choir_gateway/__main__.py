"""Entry point of the gateway: `python -m choir_gateway`."""

import sys

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB and 0.1 s that a service does not
# need. The imports below must come after this line.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_common.service import run_service  # noqa: E402
from choir_gateway.app import run_gateway  # noqa: E402
from choir_gateway.settings import GatewaySecrets, GatewaySettings  # noqa: E402

if __name__ == "__main__":
    sys.exit(
        run_service(
            run_gateway,
            settings_type=GatewaySettings,
            secrets_type=GatewaySecrets,
            log_source="gateway",
            span_service="choir-gateway",
        )
    )
