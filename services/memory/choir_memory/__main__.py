"""Entry point of the memory service: `python -m choir_memory`.

Exits 0 after SIGTERM or SIGINT, and 1 with one paragraph on standard error when it cannot start.
"""

import ctypes
import socket
import sys

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB and 0.1 s that a service does not
# need; and greenlet, 1 MB. The imports below must come after these lines.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import
sys.modules.setdefault("greenlet", None)  # type: ignore[arg-type]

from choir_common.http.listen import bind_tcp_address, bind_unix, stop_on_signals  # noqa: E402
from choir_common.redactor import Redactor  # noqa: E402
from choir_common.service import run_service  # noqa: E402
from choir_memory.app import MemoryService  # noqa: E402
from choir_memory.settings import MemorySecrets, MemorySettings  # noqa: E402

# SQLAlchemy imports it when an earlier version's schema is upgraded
del sys.modules["greenlet"]

_M_ARENA_MAX = -8
"""Parameter of mallopt (malloc.h)."""


async def serve_until_stopped(
    settings: MemorySettings, secrets: MemorySecrets, _redactor: Redactor
) -> None:
    """Serve until SIGTERM or SIGINT."""
    settings = settings.with_config(secrets.embedding)
    service = MemoryService(settings, secrets)
    await service.run([_listen(settings)], stop_on_signals())


def _listen(settings: MemorySettings) -> socket.socket:
    if settings.memory_http is None:
        return bind_unix(settings.health_socket)
    return bind_tcp_address(settings.memory_http, "CHOIR_MEMORY_HTTP")


def _use_one_arena() -> None:
    """Let all threads share a heap: glibc gives each its own, and what it frees no other can use (4 MB)."""
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(_M_ARENA_MAX, 1)


if __name__ == "__main__":
    _use_one_arena()
    sys.exit(
        run_service(
            serve_until_stopped,
            settings_type=MemorySettings,
            secrets_type=MemorySecrets,
            log_source="choir-memory",
            span_service="choir-memory",
        )
    )
