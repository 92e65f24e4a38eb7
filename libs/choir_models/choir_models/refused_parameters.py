"""Optional parameters that models refuse: recognized in a provider's error, dropped and remembered.

A limit of the output that exceeds what the model allows is lowered instead, and remembered, too.

They are not stored: after a restart a refusal costs one more request, which providers do not bill.
"""

import re

import structlog

from choir_common.i18n import _
from choir_common.wire.config import ModelConfig
from choir_models.completion_limits import (
    LEAST_LIMIT,
    configured_limit,
    limit_names,
    request_limit,
    with_limit,
)
from choir_models.model import (
    NO_LISTENER,
    ChatModel,
    Completion,
    ContextOverflow,
    ModelFailed,
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

MIN_LIMIT = 256
"""Tokens; a model that allows less is not usable."""
_NAMES_LIMIT = re.compile(
    r"max_(completion_|output_)?tokens|maxOutputTokens|output tokens|in the completion"
)
_TOO_LARGE = re.compile(
    r"too (large|high|big)|at most|maximum|less than or equal|exceed|range|>|upper limit",
    re.IGNORECASE,
)
_EXCLUSIVE = re.compile(r"\d \(exclusive\)")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\d(?![\w])")


def refused_parameter(refusal: str) -> str | None:
    """Return the optional parameter that a provider's error refuses; the first one if it names several.

    A message such as "max_tokens is not supported, use max_completion_tokens" names the refused one first.
    """
    name = _NAMES.search(refusal)
    if name is None or not _REFUSES.search(refusal):
        return None
    # The second is its place in the Responses API.
    return name[1].replace(".", "_")


def allowed_limit(refusal: str, limit: int) -> int | None:
    """Return a lower limit of the output if a provider's error says that this one is too large, or None."""
    if not _NAMES_LIMIT.search(refusal) or not _TOO_LARGE.search(refusal):
        return None
    numbers = [int(number.replace(",", "")) for number in _NUMBER.findall(refusal)]
    allowed = [number for number in numbers if MIN_LIMIT <= number < limit]
    if not allowed:
        return _halved(limit, MIN_LIMIT)
    return max(allowed) - (1 if _EXCLUSIVE.search(refusal) else 0)


def fitting_limit(refusal: str, limit: int) -> int | None:
    """Return a lower limit of the output if a prompt fits into the context window only without this one."""
    return _halved(limit, LEAST_LIMIT) if _NAMES_LIMIT.search(refusal) else None


def _halved(limit: int, least: int) -> int | None:
    return limit // 2 if limit // 2 >= least else None


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
        self._limits: dict[str, int] = {}
        """The longest output of the models that refused a longer one."""

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output; raises the errors of `ChatModel.think`."""
        origin = model_id(settings)
        fitting = request_limit(settings)
        while True:
            without = self._refused.get(origin, frozenset())
            reduced = settings_without(settings, without) if without else settings
            limit = min(fitting, self._limits.get(origin, fitting))
            if limit < request_limit(reduced):
                reduced = with_limit(reduced, limit)
            try:
                sent = prompt.omitting(without)
                return await self._model.think(reduced, api_key, sent, listener)
            except ModelRequestRejected as error:
                if error.spent is not None or not self._learn(reduced, sent, error):
                    raise
            except ContextOverflow as error:
                lower = fitting_limit(error.message, limit) if _sends_limit(reduced) else None
                if error.spent is not None or lower is None:
                    raise
                # Not remembered: it depends on the length of the prompt.
                fitting = lower
            listener.restart()

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def _learn(self, settings: ModelConfig, prompt: Prompt, error: ModelFailed) -> bool:
        """Learn from a refusal what the model does not accept; return whether to send the request again."""
        origin, without = model_id(settings), prompt.without
        limit = allowed_limit(error.message, request_limit(settings))
        if limit is not None and _sends_limit(settings):
            log.info("the model refuses the limit of its output; lowering it",
                     model=settings.model, limit=limit, error=error.message)  # fmt: skip
            self._limits[origin] = limit
            return True
        name = refused_parameter(error.message)
        # A second refusal of the same name is about something else.
        if name is None or name in without:
            return False
        if prompt.is_limited and without | {name} >= set(limit_names(settings)):
            raise ModelFailed(
                _(
                    "it refuses a limit of its output, without which a budget in money cannot be kept "
                    "({error})"
                ).format(error=error.message),
                cause="request",
            ) from error
        log.info("the model refuses a parameter; sending no more of it",
                 model=settings.model, parameter=name, error=error.message)  # fmt: skip
        self._refused[origin] = without | {name}
        return True


def _sends_limit(settings: ModelConfig) -> bool:
    return settings.api == "anthropic" or configured_limit(settings) is not None
