"""Embedder that needs no network: a small model from a wheel, run in one worker thread.

Used when no provider is configured. The model is loaded for the first text.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import structlog

from choir_common.errors import Unavailable
from choir_common.extras import install_command
from choir_common.i18n import _
from choir_memory.embedding.embedder import Vector
from choir_memory.usage.token_count import add_tokens

if TYPE_CHECKING:
    from choir_memory.embedding.offline_model import OfflineModel

log = structlog.get_logger("choir.memory.offline")

MAX_ROWS = 8
"""Texts per run; larger batches are no faster and take hundreds of megabytes."""
MAX_RUN_TOKENS = 256
"""Tokens per run including padding; limits memory, and the time a query waits behind documents."""
MAX_UNRELEASED_TOKENS = 64
"""Tokens of a call, without padding, above which its memory is returned to the system: 20 MB for the
largest run. That takes 4 ms, as long as embedding a query, so it is not done for queries."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


class OfflineEmbedder:
    """all-MiniLM-L6-v2 in one thread."""

    max_concurrency = 1

    def __init__(self, name: str, dimensions: int) -> None:
        self.name = name
        self.dimensions = dimensions
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")
        self._model: OfflineModel | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a unit vector per text; raises Unavailable when the model cannot be loaded."""
        model, token_lists = await self._run_in_thread(self._encode, texts)
        vectors: dict[int, Vector] = {}
        # one job per run: a query that arrives meanwhile runs next
        for group in group_by_length([len(ids) for ids in token_lists]):
            group_tokens = [token_lists[at] for at in group]
            results = await self._run_in_thread(model.run, group_tokens)
            vectors.update(zip(group, results, strict=True))
        tokens = sum(map(len, token_lists))
        add_tokens(tokens)
        if tokens > MAX_UNRELEASED_TOKENS:
            await self._run_in_thread(_release, model)
        return [vectors[at] for at in range(len(texts))]

    async def close(self) -> None:
        """Stop the thread after the queued jobs have finished.

        Jobs are not cancelled: a cancelled future would look to its waiter like its own cancellation.
        """
        await asyncio.to_thread(self._thread.shutdown)

    def _run_in_thread(
        self, work: Callable[[_Argument], _Result], argument: _Argument
    ) -> Awaitable[_Result]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._thread, work, argument)
        except RuntimeError as error:
            raise Unavailable(_("The offline model was closed.")) from error

    def _encode(self, texts: Sequence[str]) -> "tuple[OfflineModel, list[list[int]]]":
        model = self._model or self._load()
        return model, model.encode(texts)

    def _load(self) -> "OfflineModel":
        try:
            from choir_memory.embedding.offline_model import (  # noqa: PLC0415 - takes 85 MB
                OfflineModel,
            )

            model = OfflineModel()
        except (ImportError, OSError, ValueError) as error:
            raise Unavailable(
                _(
                    "The offline embedding model cannot be loaded ({error}). Install it with `{command}`, or "
                    "configure `embedding` in config.json."
                ).format(error=str(error), command=install_command("offline"))
            ) from error
        self._model = model
        log.info("offline model loaded", model=self.name)
        return model


def _release(model: "OfflineModel") -> None:
    model.release_memory()


def group_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Return the indexes of texts to run together, grouped by length, within both limits."""
    groups: list[list[int]] = []
    for at in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        # in order of length: the newest member is the longest, and all are padded to its length
        fits = groups and len(groups[-1]) < MAX_ROWS
        if fits and (len(groups[-1]) + 1) * lengths[at] <= MAX_RUN_TOKENS:
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups
