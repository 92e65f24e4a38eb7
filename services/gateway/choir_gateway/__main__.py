"""Entry point of the gateway: `python -m choir_gateway`."""

import sys

from choir_common.http.listen import stop_on_signals
from choir_common.process import run_service_process
from choir_common.telemetry import Redactor, configure_logging
from choir_common.tracing import export_spans
from choir_gateway.app import run_gateway
from choir_gateway.settings import GatewaySecrets, GatewaySettings


async def serve_until_stopped() -> None:
    """Read the settings and serve until SIGTERM or SIGINT."""
    settings = GatewaySettings.load()
    secrets = settings.read_secrets(GatewaySecrets)
    redactor = Redactor()
    redactor.add_secrets(
        value
        for value in (secrets.nats_token, secrets.operator_token, *secrets.secrets.values())
        if value
    )
    configure_logging("gateway", settings.log_level, redactor)
    with export_spans("choir-gateway", settings.otlp_endpoint):
        await run_gateway(settings, secrets, stop_on_signals(), redactor)


if __name__ == "__main__":
    sys.exit(run_service_process(serve_until_stopped))
