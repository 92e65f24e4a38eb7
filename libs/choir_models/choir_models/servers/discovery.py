"""Questions to model servers: which one answers at an address, its models and their context lengths."""

import json
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from choir_common.egress.key_placeholders import KeyProxy, is_placeholder
from choir_common.http.probe import ProbeResponse, send_probe
from choir_models.servers.model_server import ModelServer, ServedModel, ServerKind, tagged_name
from choir_models.servers.responses import (
    llamacpp_models,
    lmstudio_models,
    ollama_details,
    ollama_models,
    vllm_models,
)

VERSION_PATH = "/v1"


class ServerProbe:
    """Asks the server at one address; a question without a valid answer within the deadline has none."""

    def __init__(
        self,
        address: str,
        *,
        within_s: float,
        api_key: str | None = None,
        key_proxy: KeyProxy | None = None,
    ) -> None:
        """Ask with a key; if it is a placeholder, through the proxy that replaces it."""
        self._proxy = key_proxy if is_placeholder(api_key) else None
        self._address = address.rstrip("/").removesuffix(VERSION_PATH)
        self._within_s = within_s
        self.has_answer = False
        """Whether any program has answered over HTTP."""
        # a key with other characters cannot be in a header
        usable = api_key is not None and api_key.isascii() and api_key.isprintable()
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {api_key}"} if usable else {}

    async def identify(self) -> ModelServer | None:
        """Return the server with its models; None if nothing answers, or another program."""
        tags = await self._ask("/api/tags")
        if tags is None:
            return None
        self.has_answer = True
        models = ollama_models(_body(tags), await self._get("/api/ps"))
        if models is not None:
            return self._server("ollama", models)
        models = lmstudio_models(await self._get("/api/v0/models"))
        if models is not None:
            return self._server("lmstudio", models)
        listed = await self._get("/v1/models")
        models = llamacpp_models(await self._get("/props"), listed)
        if models is not None:
            return self._server("llamacpp", models)
        models = vllm_models(listed)
        return None if models is None else self._server("vllm", models)

    async def describe_ollama_model(self, model: ServedModel) -> ServedModel:
        """Return an Ollama model with its capabilities and its longest context."""
        details = await self._post("/api/show", {"model": model.name}, self._within_s)
        return ollama_details(model, details)

    async def load_ollama_model(self, name: str, within_s: float) -> ServedModel | None:
        """Load an Ollama model, and return it with the context length that Ollama chose; None if it has none.

        A request without messages loads the model and ends.
        """
        request = {"model": name, "messages": [], "stream": False}
        if not await self._post("/api/chat", request, within_s):
            return None
        models = ollama_models(await self._get("/api/tags"), await self._get("/api/ps")) or ()
        return next((model for model in models if model.name == tagged_name(name)), None)

    def _server(self, kind: ServerKind, models: tuple[ServedModel, ...]) -> ModelServer:
        return ModelServer(kind, self._address, models)

    async def _ask(self, path: str) -> ProbeResponse | None:
        return await send_probe(
            self._address, path, self._within_s, headers=self._headers, proxy=self._proxy
        )

    async def _get(self, path: str) -> bytes:
        return _body(await self._ask(path))

    async def _post(self, path: str, request: dict[str, object], within_s: float) -> bytes:
        body = json.dumps(request).encode()
        return _body(
            await send_probe(self._address, path, within_s, body, self._headers, self._proxy)
        )


def _body(response: ProbeResponse | None) -> bytes:
    return response.body if response is not None and response.status == HTTPStatus.OK else b""


async def describe_models(server: ModelServer, within_s: float) -> ModelServer:
    """Return the server with all that can be known about each model."""
    if server.kind != "ollama":
        return server
    probe = ServerProbe(server.address, within_s=within_s)
    described = [await probe.describe_ollama_model(model) for model in server.models]
    return replace(server, models=tuple(described))
