"""Start the memory service: `python -m choir_memory`.

Run by the embedded supervisor and by compose. Exits 0 after SIGTERM or SIGINT, and 1 with one
paragraph on standard error when it cannot start.
"""

import socket
import sys

from choir_common.http.listen import bind_tcp, bind_unix, stop_on_signals
from choir_common.process import run_service_process
from choir_common.telemetry import Redactor, configure_logging
from choir_common.tracing import export_spans
from choir_memory.app import MemoryService
from choir_memory.settings import MemorySecrets, MemorySettings


async def serve_until_stopped() -> None:
    """Read the settings and serve until SIGTERM or SIGINT."""
    settings = MemorySettings.load()
    secrets = settings.read_secrets(MemorySecrets)
    settings = settings.with_config(secrets.embedding)
    _configure_logging(settings, secrets)
    service = MemoryService(settings, secrets)
    with export_spans("choir-memory", settings.otlp_endpoint):
        await service.run([_listen(settings)], stop_on_signals())


def _configure_logging(settings: MemorySettings, secrets: MemorySecrets) -> None:
    redactor = Redactor()
    known = (
        *(secrets.postgres_password, secrets.nats_token),
        *(secrets.embedding_key, secrets.model_key),
    )
    redactor.add_secrets(secret.get_secret_value() for secret in known if secret is not None)
    configure_logging("choir-memory", settings.log_level, redactor)


def _listen(settings: MemorySettings) -> socket.socket:
    if settings.memory_http is None:
        return bind_unix(settings.health_socket)
    host, _, port = settings.memory_http.rpartition(":")
    return bind_tcp(host.strip("[]"), int(port), "CHOIR_MEMORY_HTTP")


if __name__ == "__main__":
    sys.exit(run_service_process(serve_until_stopped))
