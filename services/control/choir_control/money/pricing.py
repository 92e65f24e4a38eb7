"""The cost of a call, from its usage and its model's prices. Pure, in exact decimals."""

from collections.abc import Iterable
from decimal import Decimal

from choir_common.wire.money import LongPromptPrices
from choir_control.configuration.prices import AllPrices
from choir_control.money.usage import ProviderUsage

MILLION = Decimal(1_000_000)
SECONDS_PER_MINUTE = Decimal(60)
ZERO = Decimal(0)
TOKENS_PER_SECOND = 20
"""Upper estimate of the tokens of a second of speech, as audio or as words."""
CHARACTERS_PER_SECOND = Decimal(8)
"""Lower estimate of how fast a text is spoken."""
PLACES = Decimal("1e-12")
"""A price has six decimals and is for a million tokens, so a cost has at most twelve."""


def cost_of(usage: ProviderUsage, prices: AllPrices) -> Decimal | None:
    """Return the cost in US dollars; None if the call used something without a price."""
    if usage.kind in ("transcription", "speech") and not _is_billed_by_tokens(usage, prices):
        cost = _cost_of_quantity(usage.audio_seconds, usage.characters, prices)
        return None if cost is None else cost.quantize(PLACES)
    total = ZERO
    for tokens, price in (*_prompt_parts(usage, prices), *_output_parts(usage, prices)):
        if tokens and price is None:
            return None
        total += tokens * (price or ZERO) / MILLION
    return total.quantize(PLACES)


def highest_cost(
    prices: AllPrices, prompt_tokens: int, completion_tokens: int, *, has_long_cache: bool = False
) -> Decimal | None:
    """Return the most that a call with these tokens can cost, or None without a price for them."""
    table = _prices_for(prices, prompt_tokens)
    long_write = _long_write(prices, table) if has_long_cache else None
    prompt = _max(
        (table.input, table.cache_write, long_write, prices.audio_input, prices.image_input)
    )
    output = _max((table.output, prices.reasoning, prices.audio_output))
    if table.input is None or table.output is None:
        return None
    return (prompt * prompt_tokens + output * completion_tokens) / MILLION


def highest_speech_cost(
    prices: AllPrices, audio_seconds: Decimal | None, characters: int | None
) -> Decimal | None:
    """Return the most that a transcription or a speech can cost, or None without a price for it."""
    if audio_seconds is None and characters is not None:
        audio_seconds = characters / CHARACTERS_PER_SECOND
    cost = _cost_of_quantity(audio_seconds, characters, prices)
    if prices.input is None or prices.output is None or audio_seconds is None:
        return cost
    tokens = int(audio_seconds * TOKENS_PER_SECOND) + (characters or 0)
    by_tokens = highest_cost(prices, tokens, tokens)
    return _max((cost, by_tokens))


def _is_billed_by_tokens(usage: ProviderUsage, prices: AllPrices) -> bool:
    return usage.tokens > 0 and (prices.input is not None or prices.output is not None)


def _cost_of_quantity(
    audio_seconds: Decimal | None, characters: int | None, prices: AllPrices
) -> Decimal | None:
    """Return the cost by characters or by minutes, or None without such a price."""
    if characters is not None and prices.million_characters is not None:
        return characters * prices.million_characters / MILLION
    if audio_seconds is not None and prices.audio_minute is not None:
        return audio_seconds * prices.audio_minute / SECONDS_PER_MINUTE
    return None


def _long_write(prices: AllPrices, table: AllPrices | LongPromptPrices) -> Decimal | None:
    """Return the price of tokens in a cache of an hour: Anthropic's is twice that of the input."""
    is_long_prompt = table is not prices
    if prices.cache_write_1h is not None and not is_long_prompt:
        return prices.cache_write_1h
    return None if table.input is None else 2 * table.input


def _prices_for(prices: AllPrices, prompt_tokens: int) -> AllPrices | LongPromptPrices:
    long = prices.long_prompt
    return long if long is not None and prompt_tokens > long.above_tokens else prices


Part = tuple[int, Decimal | None]
"""Tokens, and their price per million; None if they have no price."""


def _prompt_parts(usage: ProviderUsage, prices: AllPrices) -> tuple[Part, ...]:
    table = _prices_for(prices, usage.prompt_tokens)
    # A provider's counts may contradict each other: the parts never exceed the whole.
    rest = usage.prompt_tokens
    cached = min(usage.cached_tokens, rest)
    rest -= cached
    writes = min(usage.cache_write_tokens, rest)
    rest -= writes
    long_writes = min(usage.cache_write_1h_tokens, writes)
    audio = min(usage.audio_input_tokens, rest)
    rest -= audio
    image = min(usage.image_tokens, rest)
    return (
        (cached, _first(table.cached_input, table.input)),
        (writes - long_writes, _first(table.cache_write, table.input)),
        (long_writes, _long_write(prices, table)),
        (audio, _first(prices.audio_input, table.input)),
        (image, _first(prices.image_input, table.input)),
        (rest - image, table.input),
    )


def _output_parts(usage: ProviderUsage, prices: AllPrices) -> tuple[Part, ...]:
    table = _prices_for(prices, usage.prompt_tokens)
    rest = usage.completion_tokens
    reasoning = min(usage.reasoning_tokens, rest)
    rest -= reasoning
    audio = min(usage.audio_output_tokens, rest)
    return (
        (reasoning, _first(prices.reasoning, table.output)),
        (audio, _first(prices.audio_output, table.output)),
        (rest - audio, table.output),
    )


def _first(price: Decimal | None, default: Decimal | None) -> Decimal | None:
    return default if price is None else price


def _max(prices: Iterable[Decimal | None]) -> Decimal:
    return max((price for price in prices if price is not None), default=ZERO)
