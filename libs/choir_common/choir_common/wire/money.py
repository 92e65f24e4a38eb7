"""Money on the wire: prices of models, and the usage of provider calls that control prices.

All amounts are US dollars as exact decimals. Agents and memory report usage, never costs: only control knows
the prices.
"""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from choir_common.wire.model import AgentName, AwareTime, WireModel

MICRO_USD = Decimal(1_000_000)
"""Micro-dollars in a dollar; events state amounts of money as whole micro-dollars."""

MAX_MODEL_NAME = 200

_DOLLARS = WithJsonSchema({"type": "number", "minimum": 0})
# Lax, because a validator that runs before the others turns JSON into Python's numbers.
Price = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6, strict=False), _DOLLARS]
"""US dollars per unit."""
UsdLimit = Annotated[
    Decimal, Field(ge=0, le=1_000_000_000, decimal_places=6, strict=False), _DOLLARS
]
"""A limit in US dollars."""
UsdAmount = Annotated[Decimal, Field(ge=0, le=1_000_000_000)]
"""An amount of US dollars."""


class LongPromptPrices(WireModel):
    """Prices of a whole call whose prompt is longer than a threshold."""

    above_tokens: int = Field(ge=1)
    """The longest prompt, in tokens, at the ordinary prices."""
    input: Price
    """Per million prompt tokens."""
    cached_input: Price | None = None
    """Per million prompt tokens from the provider's cache; default: `input`."""
    cache_write: Price | None = None
    """Per million prompt tokens written to the provider's cache; default: `input`."""
    output: Price
    """Per million completion tokens."""


class ModelPrices(WireModel):
    """Prices of a language model in US dollars for a million tokens.

    A call that uses something without a price has an unknown cost.
    """

    input: Price | None = None
    """Per million prompt tokens."""
    cached_input: Price | None = None
    """Per million prompt tokens from the provider's cache; default: `input`."""
    cache_write: Price | None = None
    """Per million prompt tokens written to the provider's cache; default: `input`."""
    cache_write_1h: Price | None = None
    """Per million prompt tokens written to a cache that lasts an hour; default: twice `input`."""
    output: Price | None = None
    """Per million completion tokens."""
    reasoning: Price | None = None
    """Per million reasoning tokens; default: `output`."""
    audio_input: Price | None = None
    """Per million prompt tokens of audio; default: `input`."""
    audio_output: Price | None = None
    """Per million completion tokens of audio; default: `output`."""
    image_input: Price | None = None
    """Per million prompt tokens of images; default: `input`."""
    long_prompt: LongPromptPrices | None = None
    """Prices of calls with a long prompt, for models that have them."""


class EmbeddingPrices(WireModel):
    """Price of an embedding model."""

    input: Price
    """US dollars per million tokens."""


class SpeechPrices(WireModel):
    """Prices of a text-to-speech model in US dollars: by characters, minutes or tokens."""

    million_characters: Price | None = None
    """Per million characters of spoken text."""
    audio_minute: Price | None = None
    """Per minute of audio; only for audio whose length Choir can read (Ogg Opus)."""
    input: Price | None = None
    """Per million tokens of the text."""
    output: Price | None = None
    """Per million tokens of the audio."""


class TranscriptionPrices(WireModel):
    """Prices of a transcription model in US dollars: by tokens, or by minutes.

    With both, tokens count if the endpoint reports them.
    """

    audio_minute: Price | None = None
    """Per minute of audio."""
    input: Price | None = None
    """Per million tokens of audio and prompt."""
    audio_input: Price | None = None
    """Per million tokens of audio; default: `input`."""
    output: Price | None = None
    """Per million tokens of the transcript."""


class ModelUsage(WireModel):
    """Details of a model call that its price depends on, besides the token counts of its event."""

    name: str = ""
    """The model's name in `models` of config.json."""
    job_id: str | None = None
    """The core job that made the call."""
    cache_write_tokens: int = Field(default=0, ge=0)
    """Prompt tokens that the provider wrote to its cache; part of the prompt tokens."""
    cache_write_1h_tokens: int = Field(default=0, ge=0)
    """Those of the tokens written to the cache that it keeps for an hour."""
    reasoning_tokens: int = Field(default=0, ge=0)
    """Completion tokens of the model's reasoning; part of the completion tokens."""
    audio_input_tokens: int = Field(default=0, ge=0)
    """Prompt tokens of audio; part of the prompt tokens."""
    audio_output_tokens: int = Field(default=0, ge=0)
    """Completion tokens of audio; part of the completion tokens."""
    image_tokens: int = Field(default=0, ge=0)
    """Prompt tokens of images; part of the prompt tokens."""
    billed_usd: UsdAmount | None = None
    """What the provider says that it bills for the call; None if it says nothing."""
    counted: bool = True
    """Whether the provider counted the tokens; otherwise Choir estimated them."""
    reservation: str = ""
    """The reservation of money that this call settles."""


UsageKind = Literal["chat", "memory", "embedding", "transcription", "speech"]
"""`chat`: an agent's model call, or a test call; `memory`: a call of memory's own model."""


class UsageReport(WireModel):
    """Usage of a provider by a service outside the sessions' logs."""

    report_id: str = Field(min_length=1, max_length=100)
    """Its idempotency key."""
    kind: UsageKind
    agent_id: AgentName | None = None
    """None: the calls served several agents."""
    name: str = Field(default="", max_length=200)
    """The entry of config.json."""
    model: str = Field(max_length=MAX_MODEL_NAME)
    """The provider's name of the model."""
    at: AwareTime
    calls: int = Field(default=1, ge=1)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    usage: ModelUsage = ModelUsage()


class UsageReports(WireModel):
    """Reports of a service, in one request."""

    reports: tuple[UsageReport, ...] = Field(max_length=500)


MoneyBudget = Literal[
    "usd_per_call",
    "usd_per_job",
    "usd_per_session",
    "usd_per_day",
    "usd_per_month",
    "total_usd_per_day",
    "total_usd_per_month",
]
"""The budgets in money, by their names in config.json."""


class ReserveMoney(WireModel):
    """Host tool `choir.budget.reserve`: reserve the money for one provider call before it is made."""

    kind: UsageKind = "chat"
    name: str = Field(max_length=64)
    """The entry in `models`, `transcription` or `tts`; empty: `memory.model`."""
    job_id: str | None = Field(default=None, max_length=100)
    """The core job that makes the call."""
    prompt_tokens: int = Field(default=0, ge=0)
    """Estimate of the prompt."""
    completion_tokens: int = Field(default=0, ge=0)
    """The longest completion that the request would allow."""
    least_completion_tokens: int | None = Field(default=None, ge=0)
    """The shortest completion that is worth the call; None: only the longest one."""
    audio_seconds: float | None = Field(default=None, ge=0)
    """Duration, or the longest possible one, of the audio to transcribe."""
    characters: int | None = Field(default=None, ge=0)
    """Characters to speak."""
    hold_s: float = Field(gt=0, le=86_400)
    """How long the call may take, in seconds."""


class MoneyReserved(WireModel):
    """The answer: a reservation, or the budget that does not allow the call."""

    reservation: str = ""
    """Empty if the call is not allowed."""
    completion_tokens: int | None = None
    """The longest completion that money was reserved for; the request sends it as its limit. None: it needs
    none."""
    budget: MoneyBudget | None = None
    """The exhausted budget."""
    limit_micro_usd: int = 0
    """Its limit in force, with grants."""
    until: str = ""
    """When its period ends, UTC, ISO 8601; empty for a budget without a period."""
    text: str = ""
    """The question to the user about the exhausted budget."""


class SpentToday(WireModel):
    """What an agent has spent today, in its time zone."""

    usd: UsdAmount


class ReleaseMoney(WireModel):
    """Host tool `choir.budget.release`: give back the reservation of a call that was not billed."""

    reservation: str = Field(min_length=1, max_length=100)


class ReserveForMemory(WireModel):
    """memory → control: reserve the money for one call of memory's model. Safe to repeat."""

    reservation: str = Field(min_length=1, max_length=100)
    """Its idempotency key; the call's report names it."""
    agent_id: AgentName | None = None
    call: ReserveMoney


class ReleaseForMemory(WireModel):
    """memory → control: give back the reservation of a call that was not billed."""

    reservation: str = Field(min_length=1, max_length=100)


RESERVE_TOOL = "choir.budget.reserve"
RELEASE_TOOL = "choir.budget.release"
SPENT_TOOL = "choir.budget.spent"


class CostLine(WireModel):
    """The cost of one group of calls."""

    group: str
    """The day, agent, job, model or revision of the event; empty for calls without one."""
    calls: int
    cost_usd: Decimal
    """Sum of the known costs."""
    unknown_calls: int = 0
    """Calls without a known price, which the sum does not contain."""
    unknown_tokens: int = 0
    """Tokens of those calls."""
    estimated_calls: int = 0
    """Calls without the provider's counts: stopped, cut off, lost in a crash, or of a provider that does not
    count. The sum contains estimates for them."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


CostGroup = Literal["day", "month", "agent", "session", "job", "model", "kind", "event"]


class CostReport(WireModel):
    """Costs by group, with their total."""

    by: CostGroup
    since: str
    """First day of the report, ISO 8601."""
    until: str
    """Last day of the report."""
    total: CostLine
    lines: tuple[CostLine, ...]
    prices_date: str
    """Date of the shipped price table."""
    unpriced: tuple[str, ...] = ()
    """Paths in config.json of the models, voices and other entries whose price is unknown."""
