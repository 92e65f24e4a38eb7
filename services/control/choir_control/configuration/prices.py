"""Prices of models: those of config.json, or else those of the price table that Choir ships.

The table `prices.json` has a date and is matched by the provider's model name, without vendor, date and
other suffixes that do not change the price.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date as Date  # noqa: N812 - the field `date` hides the class
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Literal
from urllib.parse import urlsplit

from choir_common.wire.config import (
    Config,
    EmbeddingConfig,
    ModelConfig,
    TranscriptionConfig,
    TtsConfig,
)
from choir_common.wire.model import WireModel
from choir_common.wire.money import ModelPrices, Price

PriceSource = Literal["config", "table", "free"]
PricedEntry = ModelConfig | EmbeddingConfig | TtsConfig | TranscriptionConfig
"""An entry of config.json that has prices."""

_SUFFIX = re.compile(
    r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest|00\d)$|-preview(?:-\d\d-\d{4}|-\d\d-\d\d)?$"
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class AllPrices(ModelPrices):
    """Prices of any model: of tokens, audio and characters."""

    audio_minute: Price | None = None
    """Per minute of audio."""
    million_characters: Price | None = None
    """Per million characters of spoken text."""


FREE = AllPrices(input=Decimal(0), output=Decimal(0), audio_minute=Decimal(0))


@dataclass(frozen=True, slots=True)
class KnownPrices:
    """The prices of a model, and where they come from."""

    prices: AllPrices
    source: PriceSource


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices of well-known models on a date."""

    date: Date
    models: Mapping[str, AllPrices]
    """By normalized name."""

    def find(self, model: str) -> AllPrices | None:
        """Return the prices of a provider's model name, or None.

        A name with a colon is a variant with prices of its own, such as `:free`.
        """
        name = _normalized(model)
        while True:
            if name in self.models:
                return self.models[name]
            shorter = _SUFFIX.sub("", name)
            if shorter == name:
                return None
            name = shorter


class _PriceFile(WireModel):
    date: Date
    models: dict[str, AllPrices]


@cache
def load_price_table() -> PriceTable:
    """Return the shipped table."""
    data = files("choir_control.configuration").joinpath("prices.json").read_bytes()
    table = _PriceFile.model_validate_json(data)
    return PriceTable(
        table.date, {_normalized(name): prices for name, prices in table.models.items()}
    )


def prices_of(entry: PricedEntry) -> KnownPrices | None:
    """Return the prices of an entry of config.json, or None if they are unknown."""
    if entry.prices is not None:
        own = AllPrices.model_validate(entry.prices.model_dump())
        return KnownPrices(own, "config")
    if isinstance(entry, TranscriptionConfig) and entry.model_dir is not None:
        return KnownPrices(FREE, "free")
    if isinstance(entry, ModelConfig) and _is_free(entry):
        return KnownPrices(FREE, "free")
    return prices_in_table(provider_model(entry))


def provider_model(entry: PricedEntry) -> str:
    """Return the provider's name of an entry's model."""
    return entry.model_id if isinstance(entry, TtsConfig) else entry.model


def prices_in_table(model: str) -> KnownPrices | None:
    """Return the prices of a provider's model name in the shipped table, or None."""
    prices = load_price_table().find(model)
    return None if prices is None else KnownPrices(prices, "table")


def unpriced_entries(config: Config) -> Iterator[str]:
    """Yield the path of each entry without known prices."""
    for name, model in config.models.items():
        if prices_of(model) is None:
            yield f"models.{name}"
    if config.embedding is not None and prices_of(config.embedding) is None:
        yield "embedding"
    for name, tts in config.tts.items():
        if prices_of(tts) is None:
            yield f"tts.{name}"
    for name, transcription in config.transcription.items():
        if prices_of(transcription) is None:
            yield f"transcription.{name}"


def _is_free(model: ModelConfig) -> bool:
    """Return whether nobody bills for a model: the rehearsal model, and models of this host's servers."""
    provider = model.provider_properties
    is_here = urlsplit(model.endpoint).hostname in _LOOPBACK
    # Ollama passes models named like this on to its cloud.
    is_cloud = model.model.endswith(("-cloud", ":cloud"))
    is_own = provider.is_own_server or model.api == "ollama"
    return provider.is_rehearsal or (is_own and is_here and not is_cloud)


def _normalized(model: str) -> str:
    return model.rpartition("/")[2].lower().replace(".", "-")
