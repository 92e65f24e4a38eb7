"""The kinds of model servers: names, usual addresses, and how to give a model a longer context."""

from dataclasses import dataclass
from typing import Literal, assert_never

ServerKind = Literal["ollama", "llamacpp", "vllm", "lmstudio"]

SERVER_NAMES: dict[ServerKind, str] = {
    "ollama": "Ollama",
    "llamacpp": "llama.cpp",
    "vllm": "vLLM",
    "lmstudio": "LM Studio",
}
VLLM_TOOLS = "--enable-auto-tool-choice --tool-call-parser PARSER"
"""Without a parser vLLM does not start with the first option; its documentation lists them by model."""
USUAL_PORTS: dict[ServerKind, int] = {
    "ollama": 11434,
    "llamacpp": 8080,
    "vllm": 8000,
    "lmstudio": 1234,
}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers."""

    name: str
    context_length: int | None = None
    """Tokens that the server allows a request now; None if it does not tell, or has not loaded the model."""
    max_context_length: int | None = None
    """Tokens that the model was made for."""
    calls_tools: bool | None = None
    """None if the server does not tell."""
    is_loaded: bool = False
    sees: bool | None = None
    """Whether it reads pictures; None if the server does not tell."""


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that answered, with its models in its own order."""

    kind: ServerKind
    address: str
    """Scheme, host and port, and a path if it has one; without `/v1`."""
    models: tuple[ServedModel, ...]

    @property
    def label(self) -> str:
        """Name and address for users."""
        return f"{SERVER_NAMES[self.kind]} at {self.address}"

    def find(self, name: str) -> ServedModel | None:
        """Return a model by its name; for Ollama the tag `latest` may be omitted."""
        full_name = tagged_name(name) if self.kind == "ollama" else name
        return next((model for model in self.models if model.name == full_name), None)


def tagged_name(name: str) -> str:
    """Return an Ollama model's name with its tag."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def longer_context_command(kind: ServerKind, model: str, tokens: int) -> str:
    """Return the command that gives a model a context of `tokens`."""
    match kind:
        case "ollama":
            return f"OLLAMA_CONTEXT_LENGTH={tokens} ollama serve"
        case "llamacpp":
            return f"llama-server --ctx-size {tokens} --parallel 1 --jinja --model FILE"
        case "vllm":
            return f"vllm serve {model} --max-model-len {tokens} {VLLM_TOOLS}"
        case "lmstudio":
            # without the first, another instance of the model is loaded beside it
            return f"lms unload {model}; lms load {model} --context-length {tokens}"
        case _:
            assert_never(kind)
