"""HTTP transport for requests with a placeholder, whose key the egress proxy adds."""

import httpx2

from choir_common.egress.http_head import REASON_FIELD
from choir_common.egress.key_placeholders import KeyProxy
from choir_common.http.socket_transport import UnixTransport

DEFAULT_PORTS = {"http": 80, "https": 443}


class KeyProxyTransport(UnixTransport):
    """Sends each request to the proxy's socket, over plain HTTP and with the server's address.

    Raises ConnectError with the proxy's reason if it refuses a request or cannot reach the server.
    """

    def __init__(self, proxy: KeyProxy) -> None:
        super().__init__(proxy.socket)
        self._proxy = proxy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; raises the errors of httpx2."""
        response = await super().handle_async_request(self._through_proxy(request))
        if REASON_FIELD in response.headers:
            await response.aread()
            await response.aclose()
            raise httpx2.ConnectError(response.text)
        return response

    def _through_proxy(self, request: httpx2.Request) -> httpx2.Request:
        port = request.url.port or DEFAULT_PORTS[request.url.scheme]
        url = request.url.copy_with(scheme="http", port=port)
        host = f"[{url.host}]" if ":" in url.host else url.host
        target = f"http://{host}:{port}".encode() + url.raw_path
        headers = request.headers.copy()
        headers["Proxy-Authorization"] = self._proxy.authorization
        extensions = {**request.extensions, "target": target}
        return httpx2.Request(
            request.method, url, headers=headers, stream=request.stream, extensions=extensions
        )
