"""Parsing of what model servers say about themselves. Pure.

Every field is optional: a server of another version, or a program that is no model server at all, must not
cause an error.
"""

import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from choir_models.servers.model_server import ServedModel, tagged_name

MAX_CONTEXT = 100_000_000
"""Upper bound on a context length; a larger number is a mistake."""
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_TOOL_CAPABILITIES = {"tools", "tool_use"}


def _context_length(value: JsonValue) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value <= MAX_CONTEXT else None


ContextLength = Annotated[int | None, BeforeValidator(_context_length)]


class _Response(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class _OllamaEntry(_Response):
    name: str
    context_length: ContextLength = None


class _OllamaList(_Response):
    models: tuple[_OllamaEntry, ...]


class _OllamaDetails(_Response):
    capabilities: tuple[str, ...] | None = None
    model_info: dict[str, JsonValue] = Field(default_factory=dict)
    parameters: str = ""


class _Meta(_Response):
    n_ctx: ContextLength = None
    n_ctx_train: ContextLength = None


class _OpenAiEntry(_Response):
    id: str
    owned_by: str = ""
    max_model_len: ContextLength = None
    context_length: ContextLength = None
    meta: _Meta | None = None


class _OpenAiList(_Response):
    data: tuple[_OpenAiEntry, ...]


class _LmStudioEntry(_Response):
    id: str
    type: str
    state: str = ""
    max_context_length: ContextLength = None
    loaded_context_length: ContextLength = None
    capabilities: tuple[str, ...] | None = None


class _LmStudioList(_Response):
    data: tuple[_LmStudioEntry, ...]


class _LlamaSettings(_Response):
    n_ctx: ContextLength = None


class _LlamaProperties(_Response):
    default_generation_settings: _LlamaSettings
    chat_template_caps: dict[str, JsonValue] = Field(default_factory=dict)
    modalities: dict[str, JsonValue] = Field(default_factory=dict)


AnyResponse = TypeVar("AnyResponse", bound=_Response)


def _parse(kind: type[AnyResponse], body: bytes) -> AnyResponse | None:
    try:
        return kind.model_validate_json(body)
    except ValidationError:
        return None


def ollama_models(tags: bytes, running: bytes) -> tuple[ServedModel, ...] | None:
    """Return the models of `/api/tags`, with the context lengths of `/api/ps`; None for another server."""
    listed, loaded = _parse(_OllamaList, tags), _parse(_OllamaList, running)
    if listed is None:
        return None
    lengths = {tagged_name(it.name): it.context_length for it in (loaded.models if loaded else ())}
    return tuple(
        ServedModel(name, context_length=lengths.get(name), is_loaded=name in lengths)
        for name in (tagged_name(it.name) for it in listed.models)
    )


def ollama_details(model: ServedModel, show: bytes) -> ServedModel:
    """Return the model with what `/api/show` says about it.

    The context length of a model that is not loaded is the one in its Modelfile, if there is one.
    """
    details = _parse(_OllamaDetails, show) or _OllamaDetails()
    # the field's name begins with the architecture: `qwen3.context_length`
    lengths = (v for key, v in details.model_info.items() if key.endswith(".context_length"))
    in_modelfile = _NUM_CTX.search(details.parameters)
    return ServedModel(
        model.name,
        context_length=model.context_length
        or (_context_length(int(in_modelfile[1])) if in_modelfile else None),
        max_context_length=_context_length(next(lengths, None)),
        calls_tools=_calls_tools(details.capabilities),
        is_loaded=model.is_loaded,
        sees=None if details.capabilities is None else "vision" in details.capabilities,
    )


def lmstudio_models(body: bytes) -> tuple[ServedModel, ...] | None:
    """Return the language models of LM Studio's `/api/v0/models`; None for another server."""
    listed = _parse(_LmStudioList, body)
    if listed is None:
        return None
    return tuple(
        ServedModel(
            it.id,
            context_length=it.loaded_context_length,
            max_context_length=it.max_context_length,
            calls_tools=_calls_tools(it.capabilities),
            is_loaded=it.state == "loaded",
            sees=it.type == "vlm",
        )
        for it in listed.data
        if it.type in ("llm", "vlm")
    )


def llamacpp_models(properties: bytes, models: bytes) -> tuple[ServedModel, ...] | None:
    """Return the model of llama.cpp's server, with the context of one slot; None for another server."""
    server = _parse(_LlamaProperties, properties)
    listed = _parse(_OpenAiList, models)
    if server is None or listed is None:
        return None
    supports = server.chat_template_caps.get("supports_tools")
    sees = server.modalities.get("vision")
    return tuple(
        ServedModel(
            it.id,
            context_length=server.default_generation_settings.n_ctx,
            max_context_length=it.meta.n_ctx_train if it.meta else None,
            calls_tools=supports if isinstance(supports, bool) else None,
            is_loaded=True,
            sees=sees if isinstance(sees, bool) else None,
        )
        for it in listed.data
    )


def vllm_models(body: bytes) -> tuple[ServedModel, ...] | None:
    """Return the models of a server that tells their length in `/v1/models`; None for another server."""
    listed = _parse(_OpenAiList, body)
    if listed is None or not any(map(_length_of, listed.data)):
        return None
    return tuple(ServedModel(it.id, _length_of(it), is_loaded=True) for it in listed.data)


def _length_of(entry: _OpenAiEntry) -> int | None:
    return entry.max_model_len or entry.context_length or (entry.meta.n_ctx if entry.meta else None)


def _calls_tools(capabilities: Sequence[str] | None) -> bool | None:
    return None if capabilities is None else not _TOOL_CAPABILITIES.isdisjoint(capabilities)
