"""Texts to embed with the installation's own model, for clients of the OpenAI-compatible API."""

from typing import Annotated

from pydantic import Field, StringConstraints

from choir_common.wire.model import WireModel

MAX_EMBEDDED_TEXTS = 32
"""Texts of one request over NATS: what an embedder takes at once."""
MAX_EMBEDDED_CHARS = 100_000
EmbeddedText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_EMBEDDED_CHARS)]


class EmbedTexts(WireModel):
    """Embed texts with the model that serves searches."""

    model: str = Field(max_length=200)
    """Its name; another one is refused, because vectors of two models cannot be compared."""
    texts: tuple[EmbeddedText, ...] = Field(min_length=1, max_length=MAX_EMBEDDED_TEXTS)
    dimensions: int | None = Field(default=None, ge=1)
    """The length that the vectors must have; None: that of the model."""


class EmbeddingResult(WireModel):
    """The vectors of texts, in their order."""

    vectors: tuple[str, ...]
    """Base64 of little-endian 32-bit floats."""
    tokens: int
    """As the model or its provider counted; an estimate if the provider counts none."""
