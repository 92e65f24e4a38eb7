"""Common interface of the fake providers: scripted answers and faults, and a record of the requests.

A test scripts steps in neutral words (`Answer`, `ErrorFault`, ...); the provider writes them in its own
format, and refuses a request that breaks its documented rules.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import JsonValue
from starlette.routing import BaseRoute

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.model_config import ModelApi

KEY = "sk-fake-provider-key"
MODEL = "fake-model"
SECRET = "provider_key"  # noqa: S105 - the name of a secret


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as Choir counts them; a provider converts them to its own way of counting."""

    prompt_tokens: int = 1_000
    """All tokens of the prompt, with cached and cache-written ones."""
    completion_tokens: int = 50
    """All tokens of the output, with reasoning."""
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Those of `cache_write_tokens` with the longer of two lifetimes, where the provider has two."""
    audio_input_tokens: int = 0
    image_tokens: int = 0
    audio_output_tokens: int = 0
    billed_usd: float | None = None
    """What the provider says that it bills; only providers that say it send it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the provider's model proposes."""

    name: str
    arguments: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful response."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    """The model's thoughts; sent in the provider's own fields, which it may require back."""
    annotations: tuple[JsonObject, ...] = ()
    """Citations, where the provider has them."""
    usage: Usage = Usage()
    is_cut: bool = False
    """Whether the output ended at the limit of its length."""
    is_filtered: bool = False
    """Whether a content filter ended the output, where a provider filters; it is charged nevertheless."""
    pause_s: float = 0.0
    """Pause before each part of the response."""
    stall_after: int | None = None
    """Send nothing more after this number of parts, and leave the connection open."""
    abort_after: int | None = None
    """Close the connection after this number of parts (a whole response has two); 0: after the headers."""


FaultKind = Literal[
    "invalid",
    "key",
    "credit",
    "not_found",
    "rate",
    "server",
    "overloaded",
    "overflow",
    "filter",
]


@dataclass(frozen=True, slots=True)
class ErrorFault:
    """An error response in the provider's format; some providers send it with status 200."""

    kind: FaultKind
    message: str = ""
    """The provider's text; empty for its usual one."""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without a response."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Never respond."""


Fault = ErrorFault | Disconnect | Hang
Step = Answer | Fault


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as the provider received it; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: JsonObject
    raw: bytes


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error in the provider's format."""

    status: int
    body: JsonValue
    headers: Mapping[str, str] = field(default_factory=dict)


class FakeProvider(ABC):
    """A provider with one model and one key; `server.run_provider` serves it."""

    api: ClassVar[ModelApi]
    name: ClassVar[str]
    """Its name in the provider matrix."""
    base_path: ClassVar[str] = ""
    """What follows the host in a model's `endpoint`."""
    paths: ClassVar[tuple[str, ...]]
    """Starlette paths of its POST routes, without `base_path`."""
    stream_type: ClassVar[str] = "text/event-stream"
    filters_content: ClassVar[bool] = True
    """Whether it refuses or removes content; a server of one's own does not."""
    limit_paths: ClassVar[tuple[tuple[str, ...], ...]]
    """Where a request may state the limit of its output."""
    limit_error: ClassVar[str] = ""
    """The error for a limit above `longest_output`; empty: it is ignored."""

    def __init__(self, *, model: str = MODEL, key: str = KEY) -> None:
        self.model = model
        self.key = key
        self.origin = ""
        """Set by the server: scheme, host and port."""
        self.default: Step = Answer("All is well.")
        """The step when the script is empty."""
        self.outage: Fault | None = None
        """While set, every request gets this fault and the script stays as it is."""
        self.requests: list[RecordedRequest] = []
        self.refusals: list[str] = []
        """The broken rules, one text per refused request."""
        self.answers: list[Answer] = []
        """The answers it began to send, with the usage that it charges."""
        self.longest_output: int | None = None
        """The largest limit of an output that the model accepts; None: any."""
        self.client_left = asyncio.Event()
        """Set when a client closed its connection before the end of a response."""
        self._script: list[Step] = []

    @property
    def endpoint(self) -> str:
        """A model's `endpoint` in config.json."""
        return self.origin + self.base_path

    def settings(self, **changes: object) -> ModelConfig:
        """Return the provider's model as config.json describes it, with changes."""
        fields = {
            "api": self.api,
            "provider": self.name,
            "model": self.model,
            "endpoint": self.endpoint,
            "secret": SECRET,
            "temperature": None,
            "timeout_ms": 5_000,
        }
        return ModelConfig.model_validate(fields | changes)

    def script(self, *steps: Step) -> None:
        """Take these steps for the next valid requests, in this order."""
        self._script.extend(steps)

    def take_step(self, request: RecordedRequest) -> Step:
        """Return the step for a request; an invalid request leaves the script as it is."""
        self.requests.append(request)
        if self.outage is not None:
            return self.outage
        if self.key_of(request) != self.key:
            return ErrorFault("key")
        if self.model_of(request) != self.model:
            return ErrorFault("not_found")
        broken = self.broken_rule(request) or self._broken_limit(request)
        if broken is not None:
            self.refusals.append(broken)
            return ErrorFault("invalid", broken)
        step = self._script.pop(0) if self._script else self.default
        if isinstance(step, Answer):
            self.answers.append(step)
        return step

    def limits_of(self, request: RecordedRequest) -> list[JsonValue]:
        """Return the limits of the output that a request states; more than one is a mistake."""
        limits: list[JsonValue] = []
        for path in self.limit_paths:
            value: JsonValue = request.body
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                limits.append(value)
        return limits

    def _broken_limit(self, request: RecordedRequest) -> str | None:
        longest = self.longest_output
        for limit in self.limits_of(request) if self.limit_error else ():
            if longest is not None and isinstance(limit, int) and limit > longest:
                return self.limit_error.format(limit=limit, longest=longest, over=longest + 1)
        return None

    def other_routes(self) -> Sequence[BaseRoute]:
        """Return routes besides those of model calls, such as the list of models."""
        return ()

    @abstractmethod
    def key_of(self, request: RecordedRequest) -> str | None:
        """Return the API key that a request was sent with."""

    def model_of(self, request: RecordedRequest) -> JsonValue:
        """Return the model that a request names."""
        return request.body.get("model")

    @abstractmethod
    def broken_rule(self, request: RecordedRequest) -> str | None:
        """Return the provider's error text if a request breaks a documented rule, or None."""

    @abstractmethod
    def wants_stream(self, request: RecordedRequest) -> bool:
        """Return whether the request asks for a stream."""

    @abstractmethod
    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        """Return an answer as a whole response, and remember what must come back."""

    @abstractmethod
    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        """Return an answer as the parts of a stream, and remember what must come back."""

    @abstractmethod
    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        """Return an error in the provider's format."""

    @abstractmethod
    def images_of(self, request: RecordedRequest) -> Sequence[str]:
        """Return the images in a request, in base64."""
