"""Import of nats without aiohttp, which only its WebSocket transport uses.

Choir speaks plain TCP to NATS. aiohttp would cost every service 13 MB and 0.15 s of CPU at its start.
`client` imports this module before nats.
"""

import sys


def _import_nats_without_aiohttp() -> None:
    """Import nats while aiohttp looks absent, as nats allows."""
    if "aiohttp" in sys.modules or "nats" in sys.modules:
        return
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # makes the import raise ImportError
    try:
        import nats.aio.transport  # noqa: F401, PLC0415
    finally:
        del sys.modules["aiohttp"]


_import_nats_without_aiohttp()
