"""The most that a planned call can cost, and the longest completion that an amount pays for. Pure."""

from dataclasses import dataclass
from decimal import Decimal
from math import floor

from choir_common.wire.config import Config, EmbeddingConfig, ModelConfig
from choir_common.wire.money import ReserveMoney
from choir_control.configuration.prices import PricedEntry, prices_of
from choir_control.money.pricing import MILLION, ZERO, highest_cost, highest_speech_cost

NOTHING = -1
"""Tokens of a completion whose prompt an amount does not pay for."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """The most that a call can cost, in US dollars, by the length of its completion."""

    prompt: Decimal
    """For the prompt, the audio or the characters."""
    per_token: Decimal
    """For each token of the completion; zero: it costs nothing."""
    least_completion: int
    """Tokens of the shortest completion that is worth the call."""

    def of(self, completion_tokens: int) -> Decimal:
        """Return the most that the call can cost with a completion of this length."""
        return self.prompt + self.per_token * completion_tokens

    def longest_completion(self, amount: Decimal, tokens: int) -> int:
        """Return the tokens of the longest completion, at most `tokens`, that an amount pays for."""
        rest = amount - self.prompt
        if rest < 0:
            return NOTHING
        return tokens if not self.per_token else min(tokens, floor(rest / self.per_token))


def entry_of(config: Config, request: ReserveMoney) -> PricedEntry | None:
    """Return the entry of config.json that a call uses."""
    match request.kind:
        case "transcription":
            return config.transcription.get(request.name)
        case "speech":
            return config.tts.get(request.name)
        case "embedding":
            return config.embedding
        case "chat" | "memory":
            return config.models.get(request.name)


def highest_call_cost(entry: PricedEntry, request: ReserveMoney) -> CallCost | None:
    """Return the most that a call can cost, or None if its price is unknown."""
    source = prices_of(entry)
    if source is None:
        return None
    if isinstance(entry, ModelConfig):
        is_long = entry.prompt_cache == "1h"
        prompt, with_token = (
            highest_cost(source.prices, request.prompt_tokens, tokens, has_long_cache=is_long)
            for tokens in (0, 1)
        )
        if prompt is None or with_token is None:
            return None
        least, longest = request.least_completion_tokens, request.completion_tokens
        shortest = longest if least is None else min(least, longest)
        return CallCost(prompt, with_token - prompt, shortest)
    if isinstance(entry, EmbeddingConfig):
        price = source.prices.input
        if price is None:
            return None
        return CallCost(price * request.prompt_tokens / MILLION, ZERO, 0)
    seconds = request.audio_seconds
    audio_seconds = None if seconds is None else Decimal(repr(seconds))
    cost = highest_speech_cost(source.prices, audio_seconds, request.characters)
    return None if cost is None else CallCost(cost, ZERO, 0)
