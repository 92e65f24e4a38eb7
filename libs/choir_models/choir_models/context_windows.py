"""Context windows of models, in tokens: as configured, and not more than the model's own server allows.

A server also tells whether its model reads pictures. Only a server of one's own is asked: one whose provider
is the name of such a server, or one without TLS if no window is configured. Its answer is stored. Without an
answer the configured value counts, or an assumption, and the server is asked again after a while.
"""

from dataclasses import dataclass

from choir_common.clock import Clock, SystemClock
from choir_common.egress.key_placeholders import KeyProxy
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.model_config import DEFAULT_CONTEXT_WINDOW, ModelConfig
from choir_models.model import model_id
from choir_models.servers.model_server import ServedModel, ServerKind

MIN_CONTEXT = 8_192
"""The shortest context that an agent can work with; Ollama is asked for it if its own setting is less."""
ASK_S = 3.0
LOAD_S = 60.0
"""Time for Ollama to load a model; a model that takes longer is asked about again."""
PAUSE_S = 30.0
"""Pause until a server that did not tell is asked again."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The context window of a model."""

    tokens: int
    server: ServerKind | None = None
    """The kind of its server, if it is one of one's own that answered."""
    is_known: bool = True
    """False if the server should be asked again."""
    sees: bool | None = None
    """Whether the model reads pictures; None if its server does not tell."""

    def fill_in(self, model: ModelConfig) -> ModelConfig:
        """Return the model with its window, and with what it reads unless that is configured."""
        changes: dict[str, object] = {"context_window": self.tokens}
        if self.sees is not None and model.input is None:
            changes["input"] = ("text", "image") if self.sees else ("text",)
        return model.model_copy(update=changes)


def asks_server(model: ModelConfig) -> bool:
    """Return whether the context window is read from the model's server."""
    properties = model.provider_properties
    if properties.is_rehearsal:
        return False
    if properties.is_own_server or model.api == "ollama":
        return True
    is_plain = model.api == "openai" and model.endpoint.startswith("http://")
    return is_plain and model.context_window is None


def window_without_server(model: ModelConfig, *, is_known: bool = True) -> ContextWindow:
    """Return the configured or assumed window, for a model whose server does not tell it."""
    assumed = MIN_CONTEXT if model.api == "ollama" else DEFAULT_CONTEXT_WINDOW
    return ContextWindow(model.context_window or assumed, is_known=is_known)


def window_of_served(
    model: ModelConfig, kind: ServerKind, served: ServedModel | None
) -> ContextWindow:
    """Return the window of a model that its server described.

    Over its own API Ollama gives each request the length that the request names, up to the model's maximum.
    Every other length is fixed when the server starts or loads the model.
    """
    configured = model.context_window
    allowed = served.context_length if served else None
    longest = served.max_context_length if served else None
    sees = served.sees if served else None
    if model.api == "ollama":
        tokens = configured or max(allowed or 0, MIN_CONTEXT)
        is_known = configured is not None or allowed is not None
        return ContextWindow(min(tokens, longest or tokens), kind, is_known, sees)
    if allowed is None:
        assumed = configured or min(MIN_CONTEXT, longest or MIN_CONTEXT)
        return ContextWindow(assumed, kind, False, sees)
    return ContextWindow(min(configured or allowed, allowed), kind, sees=sees)


class ContextWindows:
    """The context windows of the models that a process uses."""

    def __init__(self, clock: Clock | None = None, key_proxy: KeyProxy | None = None) -> None:
        self._key_proxy = key_proxy
        self._clock = clock or SystemClock()
        self._windows: dict[str, ContextWindow] = {}
        self._asked_at: dict[str, float] = {}
        self._locks = KeyedLock()

    async def find(self, model: ModelConfig, api_key: str | None) -> ContextWindow:
        """Return a model's window, asking its server if necessary; never raises an error of the server."""
        if not asks_server(model):
            return window_without_server(model)
        key = f"{model_id(model)} {model.api} {model.context_window}"
        async with self._locks.of(key):
            window = self._windows.get(key)
            if window is None or (not window.is_known and self._is_due(key)):
                window = self._windows[key] = await _ask(model, api_key, self._key_proxy)
                self._asked_at[key] = self._clock.monotonic()
        return window

    async def fill_in(self, model: ModelConfig, api_key: str | None) -> ModelConfig:
        """Return the model with its context window, and whether it reads pictures."""
        return (await self.find(model, api_key)).fill_in(model)

    def _is_due(self, key: str) -> bool:
        return self._clock.monotonic() - self._asked_at[key] >= PAUSE_S


async def _ask(
    model: ModelConfig, api_key: str | None, key_proxy: KeyProxy | None
) -> ContextWindow:
    from choir_models.servers.discovery import ServerProbe  # noqa: PLC0415 - 40 ms that most agents save

    probe = ServerProbe(model.endpoint, within_s=ASK_S, api_key=api_key, key_proxy=key_proxy)
    server = await probe.identify()
    if server is None:
        # A program that answers, but does not tell, will not tell later either.
        is_final = probe.has_answer and model.api != "ollama"
        return window_without_server(model, is_known=is_final)
    served = server.find(model.model)
    if server.kind == "ollama" and served is not None:
        # Ollama chooses the length when it loads a model.
        if not served.is_loaded and model.context_window is None:
            within_s = min(LOAD_S, model.timeout_ms / 1000)
            served = await probe.load_ollama_model(model.model, within_s) or served
        served = await probe.describe_ollama_model(served)
    return window_of_served(model, server.kind, served)
