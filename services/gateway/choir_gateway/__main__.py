"""Entry point of the gateway: `python -m choir_gateway`."""

import sys

from choir_common.service import run_service
from choir_gateway.app import run_gateway
from choir_gateway.settings import GatewaySecrets, GatewaySettings

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
