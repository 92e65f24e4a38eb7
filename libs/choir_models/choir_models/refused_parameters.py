"""Optional parameters that models refuse: recognized in a provider's error, dropped and remembered.

They are not stored: after a restart a refusal costs one more request, which providers do not bill.
"""

import re

import structlog

from choir_common.wire.config import ModelConfig
from choir_models.model import (
    NO_LISTENER,
    ChatModel,
    Completion,
    ModelRequestRejected,
    OutputListener,
    Prompt,
    model_id,
)

log = structlog.get_logger("choir.agent.model")

OPTIONAL = (
    *("temperature", "top_p", "top_k", "reasoning_effort", "tool_choice"),
    *("parallel_tool_calls", "max_completion_tokens", "max_tokens"),
    *("response_format",),
)
"""Parameters without which a request means the same or is only less exact."""
_NAMES = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(OPTIONAL)}|reasoning\.effort)(?![A-Za-z0-9_])")
_REFUSES = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not (permitted|allowed|recogni[sz]ed)"
    r"|extra (inputs|fields)|extra_forbidden|cannot find field|deprecated|only .{0,30}default|invalid",
    re.IGNORECASE,
)


def refused_parameter(refusal: str) -> str | None:
    """Return the optional parameter that a provider's error refuses; the first one if it names several.

    A message such as "max_tokens is not supported, use max_completion_tokens" names the refused one first.
    """
    name = _NAMES.search(refusal)
    if name is None or not _REFUSES.search(refusal):
        return None
    # The second is its place in the Responses API.
    return name[1].replace(".", "_")


def settings_without(settings: ModelConfig, names: frozenset[str]) -> ModelConfig:
    """Return a model's settings without these parameters, which every adapter takes from there.

    The limit of the output stays: an adapter may have another name for it.
    """
    template = settings.request
    body = {name: value for name, value in template.extra_body.items() if name not in names}
    changes: dict[str, object] = {
        "request": template.model_copy(
            update={"extra_body": body} | ({"top_p": None} if "top_p" in names else {})
        )
    }
    changes |= {name: None for name in ("temperature", "reasoning_effort") if name in names}
    return settings.model_copy(update=changes)


class AdaptingModel:
    """A model that repeats a refused call without the parameter that its provider refuses."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._refused: dict[str, frozenset[str]] = {}

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output; raises the errors of `ChatModel.think`."""
        origin = model_id(settings)
        while True:
            without = self._refused.get(origin, frozenset())
            sent = prompt.omitting(without)
            reduced = settings_without(settings, without) if without else settings
            try:
                return await self._model.think(reduced, api_key, sent, listener)
            except ModelRequestRejected as error:
                name = refused_parameter(error.message)
                # A second refusal of the same name is about something else.
                if name is None or name in without:
                    raise
                log.info("the model refuses a parameter; sending no more of it",
                         model=settings.model, parameter=name, error=error.message)  # fmt: skip
                self._refused[origin] = without | {name}
                listener.restart()

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
