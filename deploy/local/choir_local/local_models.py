"""Selection of a model among the model servers of this machine: Ollama, LM Studio, llama.cpp, vLLM."""

import asyncio
from dataclasses import dataclass

from choir_common.i18n import _
from choir_common.wire.config import ModelConfig
from choir_common.wire.model_config import SMALL_CONTEXT
from choir_local.settings import LocalSettings, ModelSource
from choir_models.context_windows import MIN_CONTEXT
from choir_models.servers.discovery import ServerProbe, describe_models
from choir_models.servers.model_server import (
    SERVER_NAMES,
    ModelServer,
    ServedModel,
    ServerKind,
    longer_context_command,
)

ASK_S = 1.0
"""A server of this machine answers in milliseconds."""
SLOW_CALL_MS = 600_000
"""Deadline of a model call: without a fast graphics card a long prompt takes minutes."""
ADVISED_CONTEXT = 32_768
SHOWN_MODELS = 4


@dataclass(frozen=True, slots=True)
class LocalModelChoice:
    """The chosen model, with its server."""

    server: ModelServer
    model: ServedModel

    @property
    def description(self) -> str:
        """Return which model it is, for users."""
        return _("{name} at the local {server_names}").format(
            name=self.model.name, server_names=SERVER_NAMES[self.server.kind]
        )

    @property
    def is_too_short(self) -> bool:
        """Return whether its context does not suffice; Ollama gets a longer one with each request."""
        length = self.model.context_length
        return self.server.kind != "ollama" and length is not None and length < MIN_CONTEXT

    @property
    def config(self) -> ModelConfig:
        """Return the model's configuration; its context window is read from the server at each start."""
        is_ollama = self.server.kind == "ollama"
        return ModelConfig(
            provider=self.server.kind,
            api="ollama" if is_ollama else "openai",
            model=self.model.name,
            endpoint=self.server.address if is_ollama else f"{self.server.address}/v1",
            # each model has its own recommended value, which the server knows
            temperature=None,
            timeout_ms=SLOW_CALL_MS,
        )


def server_addresses(settings: LocalSettings) -> dict[ServerKind, str]:
    """Return where each kind of server is expected, in the order of preference."""
    ollama = settings.ollama_host
    return {
        "ollama": ollama if "://" in ollama else f"http://{ollama}",
        "lmstudio": settings.lmstudio_url,
        "llamacpp": settings.llamacpp_url,
        "vllm": settings.vllm_url,
    }


async def find_servers(settings: LocalSettings, source: ModelSource) -> tuple[ModelServer, ...]:
    """Return the servers that answer, in the order of preference; with `auto` of every kind."""
    addresses = server_addresses(settings)
    urls = [url for kind, url in addresses.items() if source in ("auto", kind)]
    servers = await asyncio.gather(*map(_find_server, dict.fromkeys(urls)))
    return tuple(server for server in servers if server is not None)


async def _find_server(address: str) -> ModelServer | None:
    server = await ServerProbe(address, within_s=ASK_S).identify()
    return None if server is None else await describe_models(server, ASK_S)


def choose_local_model(
    servers: tuple[ModelServer, ...], preferred_model: str
) -> LocalModelChoice | None:
    """Return the preferred model, or the best one: it can call tools, and is loaded if possible.

    A model of a server that does not tell whether it can call tools is the last choice but for one whose
    context is too short for an agent.
    """
    choices = [LocalModelChoice(server, model) for server in servers for model in server.models]
    if preferred_model:
        matches = (it for it in choices if it.server.find(preferred_model) is it.model)
        return next(matches, None)
    able = [it for it in choices if it.model.calls_tools is not False]
    return min(
        able,
        key=lambda it: (it.is_too_short, it.model.calls_tools is None, not it.model.is_loaded),
        default=None,
    )


def describe_servers(servers: tuple[ModelServer, ...], choice: LocalModelChoice) -> tuple[str, ...]:
    """Return lines for users: what was found, how to choose another, and how to lengthen a short context."""
    lines = [
        _("found {label}: {list_models}").format(
            label=server.label, list_models=_list_models(server)
        )
        for server in servers
    ]
    if sum(len(server.models) for server in servers) > 1:
        lines.append(_("for another one set CHOIR_MODEL (and CHOIR_MODEL_SOURCE for its server)"))
    length = choice.model.context_length
    if length is not None and length < SMALL_CONTEXT:
        command = longer_context_command(choice.server.kind, choice.model.name, ADVISED_CONTEXT)
        effect = _("so the agent has short instructions and fewer tools; for more")
        if choice.is_too_short:
            effect = _("which is too short: agents need {min_context:,}. Run").format(
                min_context=MIN_CONTEXT
            )
        lines.append(
            _("its context has only {length:,} tokens, {effect}: {command}").format(
                length=length, effect=effect, command=command
            )
        )
    return tuple(lines)


def describe_unusable_servers(servers: tuple[ModelServer, ...]) -> tuple[str, ...]:
    """Return lines for users: why none of the servers that were found is used, and what to do."""
    return tuple(
        _("found {label}, but {why_unusable}").format(
            label=server.label, why_unusable=_why_unusable(server)
        )
        for server in servers
    )


def _why_unusable(server: ModelServer) -> str:
    if not server.models:
        get = _("run `ollama pull qwen3:8b`") if server.kind == "ollama" else _("load one")
        return _("it has no model: {get}, and start Choir again").format(get=get)
    if all(model.calls_tools is False for model in server.models):
        models = _list_models(server)
        return _(
            "no model of it can call tools, which agents need ({models}): add one that can"
        ).format(models=models)
    return _("it has no model of the name in CHOIR_MODEL: it has {list_models}").format(
        list_models=_list_models(server)
    )


def _list_models(server: ModelServer) -> str:
    names = [model.name for model in server.models]
    more = (
        [_("{count} more").format(count=len(names) - SHOWN_MODELS)]
        if len(names) > SHOWN_MODELS
        else []
    )
    return ", ".join([*names[:SHOWN_MODELS], *more]) or _("no model")
