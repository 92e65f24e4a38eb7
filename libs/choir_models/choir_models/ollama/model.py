"""Models of an Ollama server, called over its own API."""

import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Literal

import httpx2

from choir_common.egress.key_placeholders import KeyProxy, is_placeholder
from choir_common.http.key_proxy_transport import KeyProxyTransport
from choir_common.http.socket_transport import TcpTransport
from choir_common.i18n import _
from choir_common.wire.config import ModelConfig
from choir_models.call_deadline import call_deadline, silence_failure
from choir_models.http_transport import CutResponse
from choir_models.model import (
    NO_LISTENER,
    UNKNOWN_OUTPUT,
    Completion,
    ModelFailed,
    NoModelResponse,
    OutputListener,
    Prompt,
)
from choir_models.ollama.codec import render_request
from choir_models.ollama.response import ResponseReader
from choir_models.provider_errors import error_from_response, shorten

CONNECT_S = 10.0
MAX_BODY = 16 << 20
"""Maximum bytes of a response; an endless one would exhaust memory."""
MAX_ERROR_BODY = 64 << 10


_ClientKind = Literal["plain", "tls", "proxied"]


class OllamaModel:
    """The configured models of Ollama servers."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        self._key_proxy = key_proxy
        self._clients: dict[_ClientKind, httpx2.AsyncClient] = {}

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Post the prompt, pass the text on while it arrives, and return the output.

        Raises RateLimited, ContextOverflow or another ModelFailed. Cancellation closes the connection, which
        makes Ollama stop.
        """
        timeout_s = settings.timeout_ms / 1000
        try:
            async with call_deadline(timeout_s):
                return await self._post(settings, api_key, prompt, listener)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout) as error:
            raise silence_failure(timeout_s) from error
        except httpx2.ConnectTimeout as error:
            message = _("the provider did not accept a connection within {connect_s:g} s").format(
                connect_s=CONNECT_S
            )
            raise NoModelResponse(message, cause="connection") from error
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            text = shorten(
                _("the connection to Ollama failed: {reason}").format(reason=reason), api_key
            )
            spent = UNKNOWN_OUTPUT if isinstance(error, CutResponse) else None
            raise NoModelResponse(text, cause="connection", spent=spent) from error

    async def close(self) -> None:
        """Close the connections."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def _post(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener,
    ) -> Completion:
        body = render_request(settings, prompt, stream=listener is not NO_LISTENER)
        url = f"{settings.endpoint.rstrip('/').removesuffix('/v1')}/api/chat"
        headers = {**settings.request.extra_headers, "Content-Type": "application/json"}
        # compressed data could expand without bound
        headers["Accept-Encoding"] = "identity"
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        timeout = httpx2.Timeout(settings.timeout_ms / 1000, connect=CONNECT_S)
        began = time.perf_counter()
        client = self._client(url, api_key)
        async with client.stream(
            "POST", url, content=body, headers=headers, timeout=timeout
        ) as response:
            if response.status_code != HTTPStatus.OK:
                await _raise_error(response, settings, api_key)
            reader = ResponseReader(settings.model)
            try:
                await _read_lines(response, reader, listener)
            except (httpx2.NetworkError, httpx2.ProtocolError) as error:
                # A whole response is sent after its end, so it is billed.
                if listener is not NO_LISTENER:
                    raise
                raise CutResponse(str(error)) from error
        return reader.completion((time.perf_counter() - began) * 1000)

    def _client(self, url: str, api_key: str | None) -> httpx2.AsyncClient:
        kind: _ClientKind = "tls"
        if is_placeholder(api_key):
            kind = "proxied"
        elif url.startswith("http://"):
            kind = "plain"
        if kind not in self._clients:
            self._clients[kind] = self._create_client(kind)
        return self._clients[kind]

    def _create_client(self, kind: _ClientKind) -> httpx2.AsyncClient:
        transport: httpx2.AsyncBaseTransport
        if kind == "proxied" and self._key_proxy is not None:
            transport = KeyProxyTransport(self._key_proxy)
        else:
            # Plain HTTP, the usual case, needs no certificates, and the bundle takes 3 MB.
            transport = TcpTransport(None if kind == "plain" else httpx2.create_ssl_context())
        return httpx2.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)


async def _read_lines(
    response: httpx2.Response, reader: ResponseReader, listener: OutputListener
) -> None:
    size = 0
    rest = b""
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_BODY:
            message = _("the provider's response exceeds {max_body} MB").format(
                max_body=MAX_BODY >> 20
            )
            raise ModelFailed(message, cause="format")
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            _add_line(line, reader, listener)
    _add_line(rest, reader, listener)


def _add_line(line: bytes, reader: ResponseReader, listener: OutputListener) -> None:
    hidden = reader.hidden_characters
    text = reader.add_line(line)
    if text:
        listener.add_text(text)
    if reader.hidden_characters > hidden:
        listener.add_hidden(reader.hidden_characters - hidden)


async def _raise_error(
    response: httpx2.Response, settings: ModelConfig, api_key: str | None
) -> None:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_ERROR_BODY:
            break
    now = datetime.now(UTC)
    error = error_from_response(response.status_code, body, response.headers, now, api_key)
    if isinstance(error, ModelFailed) and error.cause == "not_found":
        # Ollama also answers 404 for an address that is not its API.
        raise ModelFailed(
            _("{error}; if the model is not downloaded, run `ollama pull {model}`").format(
                error=error.message, model=settings.model
            ),
            cause="not_found",
        )
    raise error
