"""Address of the egress proxy's name: a pod that knows it needs no name server."""

import asyncio
import socket

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_control.agents.runtimes.port import ProxyAddress

RESOLVED_WITHIN_S = 10.0


async def proxy_names(proxy: ProxyAddress) -> dict[str, str]:
    """Return the proxy's host name with its IP address; that of a Service is permanent.

    Raises Unavailable if it cannot be resolved.
    """
    host, _separator, port = proxy.address.rpartition(":")
    host = host.strip("[]")
    try:
        async with asyncio.timeout(RESOLVED_WITHIN_S):
            answers = await asyncio.to_thread(
                socket.getaddrinfo, host, int(port), type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError) as error:
        raise Unavailable(
            _(
                "The name {host} in CHOIR_EGRESS_AGENTS cannot be resolved: {error}. Is there a Service "
                "of that name in control's namespace?"
            ).format(host=host, error=error or _("no answer"))
        ) from error
    return {host: str(answers[0][4][0])}
