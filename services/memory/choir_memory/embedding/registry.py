"""The live embedding models, an embedder for each that is available here, and which of them serves.

While a new model is being built, the old one serves queries. If the old model's provider is no longer
available, the new one serves over the documents embedded so far.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from choir_common.clock import Clock
from choir_common.errors import ChoirError, InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_memory.embedding import model_store
from choir_memory.embedding.circuit_breaker import PROBE_TEXT, EmbedderCircuitBreaker
from choir_memory.embedding.embedder import QueryVector, Vector
from choir_memory.embedding.factory import EmbedderFactory
from choir_memory.embedding.model_store import ReembeddingProgress, StoredModel

log = structlog.get_logger("choir.memory.embedders")


@dataclass(frozen=True, slots=True)
class _LiveModel:
    """A model that serves or is being built, with its embedder if available."""

    row: StoredModel
    guard: EmbedderCircuitBreaker | None


class EmbedderRegistry:
    """The embedders of the live models; call `open` before use and `close` afterwards."""

    def __init__(
        self, *, database: Database, factory: EmbedderFactory, clock: Clock, query_deadline_s: float
    ) -> None:
        self._database = database
        self._factory = factory
        self._clock = clock
        self._query_deadline_s = query_deadline_s
        self._live: Mapping[int, _LiveModel] = {}

    async def open(self) -> None:
        """Register the configured model: as active, or as being built while the active one serves."""
        choice = self._factory.configured
        await model_store.register_model(
            self._database, choice.name, choice.dimensions, choice.source
        )
        await self.refresh()

    async def close(self) -> None:
        """Close all embedders."""
        live, self._live = self._live, {}
        for live_model in live.values():
            if live_model.guard is not None:
                await live_model.guard.close()

    async def refresh(self) -> None:
        """Read the live models again; another replica may have switched."""
        rows = await model_store.read_live_models(self._database)
        before = self._live
        if [live_model.row for live_model in before.values()] == rows:
            return
        # models that stay keep their circuit breaker and query cache
        live = {row.model: self._with_guard(row) for row in rows}
        self._live = live
        for model, live_model in before.items():
            if model not in live and live_model.guard is not None:
                await live_model.guard.close()
        for live_model in live.values():
            log.info(
                "embedding model loaded", model=live_model.row.name, state=live_model.row.state
            )

    @property
    def working(self) -> tuple[tuple[int, EmbedderCircuitBreaker], ...]:
        """Return the models that are available here with their embedders, the active one first."""
        return tuple(
            (m, live_model.guard)
            for m, live_model in self._live.items()
            if live_model.guard is not None
        )

    @property
    def name(self) -> str:
        """Return the name of the serving model."""
        return self._serving().row.name if self._live else self._factory.configured.name

    @property
    def dimensions(self) -> int:
        """Return the length of the serving model's vectors."""
        return self._serving().row.dimensions if self._live else self._factory.configured.dimensions

    @property
    def trouble(self) -> str | None:
        """Return why searches use full text only at present, or None."""
        if not self._live:
            return None
        live_model = self._serving()
        return _unknown(live_model.row) if live_model.guard is None else live_model.guard.trouble

    async def embed_query(self, text: str) -> QueryVector:
        """Return the vector of a query; raises a ChoirError within the query deadline."""
        if not self._live:
            raise Unavailable(_("The memory service is still starting."))
        live_model = self._serving()
        if live_model.guard is None:
            raise Unavailable(_unknown(live_model.row))
        vector = await live_model.guard.embed_query(text)
        return QueryVector(live_model.row.model, live_model.row.dimensions, vector)

    async def embed_texts(
        self, texts: Sequence[str], *, model: str, dimensions: int | None
    ) -> list[Vector]:
        """Return the vectors of a client's texts; at most `BATCH_SIZE`.

        Raises NotFound if the serving model has another name, InvalidRequest if its vectors have another
        length or a text is rejected, and the errors of the embedder.
        """
        if not self._live:
            raise Unavailable(_("The memory service is still starting."))
        live_model = self._serving()
        row = live_model.row
        if model != row.name:
            raise NotFound(
                _("model: the embedding model here is {name!r}, not {model!r}.").format(
                    name=row.name, model=model
                )
            )
        if dimensions not in (None, row.dimensions):
            raise InvalidRequest(
                _(
                    "dimensions: the vectors of {name} have {dimensions} numbers here, and other lengths "
                    "are not available. Leave it out."
                ).format(name=row.name, dimensions=row.dimensions)
            )
        if live_model.guard is None:
            raise Unavailable(_unknown(row))
        return await live_model.guard.embed_documents(texts)

    async def warm(self) -> None:
        """Load the model or connect to the provider before the first search needs it."""
        try:
            for _, guard in self.working[:1]:
                # not as a query: loading may exceed the query deadline
                await guard.embed_documents([PROBE_TEXT])
        except ChoirError as error:
            log.warning("embedder warm-up failed", error=error.message)

    async def progress(self) -> ReembeddingProgress | None:
        """Return the progress of the model being built, or None."""
        return await model_store.read_progress(self._database)

    def _with_guard(self, row: StoredModel) -> _LiveModel:
        live = self._live.get(row.model)
        if live is not None and live.guard is not None:
            return _LiveModel(row, live.guard)
        embedder = self._factory.create(row)
        if embedder is None:
            return _LiveModel(row, None)
        return _LiveModel(
            row, EmbedderCircuitBreaker(embedder, self._clock, self._query_deadline_s)
        )

    def _serving(self) -> _LiveModel:
        """Return the active model, or the one being built if only that is available."""
        live = list(self._live.values())
        return next((live_model for live_model in live if live_model.guard is not None), live[0])


def _unknown(row: StoredModel) -> str:
    return _(
        "The stored vectors belong to the model {name} with {dimensions} dimensions, but this process is "
        "configured for another one; restart it with the current configuration."
    ).format(name=row.name, dimensions=row.dimensions)
