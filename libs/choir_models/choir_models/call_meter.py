"""What a running model call has produced, and the estimate of its usage if it gives no usable output."""

from dataclasses import replace

from choir_common.clock import Clock
from choir_common.errors import ChoirError
from choir_common.wire.money import ModelUsage
from choir_models.model import (
    NO_LISTENER,
    UNKNOWN_OUTPUT,
    Completion,
    ModelFailed,
    OutputListener,
)

CHARACTERS_PER_TOKEN = 2
"""A lower bound, as for prompts."""
TOKENS_PER_SECOND = 50
"""Estimate of how fast a model writes what Choir does not see: hidden thoughts, or a whole response."""


class CallMeter:
    """Listener of a call that measures its output, and passes the text on."""

    def __init__(self, listener: OutputListener, clock: Clock) -> None:
        self._inner = listener
        self._clock = clock
        self._began_s = clock.monotonic()
        self._characters = 0

    @property
    def listener(self) -> OutputListener:
        """The listener of the call; one that requests a whole response stays as it is."""
        return NO_LISTENER if self._inner is NO_LISTENER else self

    @property
    def has_begun(self) -> bool:
        """Whether a part of the output has arrived."""
        return self._characters > 0

    def add_text(self, text: str) -> None:
        """Measure the next part of the text, and pass it on."""
        self._characters += len(text)
        self._inner.add_text(text)

    def add_hidden(self, characters: int) -> None:
        """Measure output that is no text."""
        self._characters += characters
        self._inner.add_hidden(characters)

    def restart(self) -> None:
        """Pass on that the call is made again; what was measured may be billed, too."""
        self._inner.restart()

    def spent_by(self, error: ChoirError) -> Completion | None:
        """Return the output of a failed call that the provider may bill, or None if the call is free."""
        if isinstance(error, ModelFailed) and error.spent is not None:
            return error.spent
        return UNKNOWN_OUTPUT if self.has_begun else None

    def fill_in(self, spent: Completion, *, prompt_tokens: int, limit: int) -> Completion:
        """Return an output with estimates of the counts that the provider did not send.

        `limit` is the longest output that the request allowed.
        """
        prompt, output_tokens = spent.prompt_tokens or prompt_tokens, spent.completion_tokens
        if not output_tokens and (self.has_begun or not spent.prompt_tokens):
            output_tokens = min(self._estimate_output(spent.text), limit)
        is_complete = (prompt, output_tokens) == (spent.prompt_tokens, spent.completion_tokens)
        return replace(
            spent,
            are_counted=spent.are_counted and is_complete,
            prompt_tokens=prompt,
            completion_tokens=output_tokens,
        )

    def _estimate_output(self, text: str) -> int:
        """Return the tokens of what was seen, or those that can be written in the call's time."""
        seen = max(self._characters, len(text)) // CHARACTERS_PER_TOKEN
        elapsed_s = self._clock.monotonic() - self._began_s
        return seen or int(elapsed_s * TOKENS_PER_SECOND)


def usage_details(
    spent: Completion, name: str, reservation: str, job_id: str | None = None
) -> ModelUsage:
    """Return what the price of a call depends on besides its tokens; `name` is the model's in config.json."""
    return ModelUsage(
        name=name,
        job_id=job_id,
        cache_write_tokens=spent.cache_write_tokens,
        cache_write_1h_tokens=spent.cache_write_1h_tokens,
        reasoning_tokens=spent.reasoning_tokens,
        audio_input_tokens=spent.audio_input_tokens,
        audio_output_tokens=spent.audio_output_tokens,
        image_tokens=spent.image_tokens,
        billed_usd=spent.billed_usd,
        counted=spent.are_counted,
        reservation=reservation,
    )
