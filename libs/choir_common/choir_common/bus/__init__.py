"""Typed request-reply and events between services over NATS; the only package that imports `nats`.

`subjects` defines every subject once. `client` connects, sends and serves requests with typed models, a
deadline for every call and an error envelope for every failure. Nothing here is durable.
"""

import sys


def _import_nats_without_aiohttp() -> None:
    """Import nats while aiohttp looks absent, as nats allows: only its WebSocket transport uses it.

    Choir speaks plain TCP to NATS. aiohttp would cost every service 13 MB and 0.15 s of CPU at its start.
    """
    if "aiohttp" in sys.modules or "nats" in sys.modules:
        return
    sys.modules["aiohttp"] = None  # type: ignore[assignment]  # makes the import raise ImportError
    try:
        import nats.aio.transport  # noqa: F401, PLC0415
    finally:
        del sys.modules["aiohttp"]


_import_nats_without_aiohttp()
