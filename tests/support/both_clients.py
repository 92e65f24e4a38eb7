"""The sync client in the form of the async one, so that the same tests run with both."""

import asyncio
import contextlib
import inspect
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

from choir_client import AsyncChoirClient, ChoirClient

CLIENTS = ("sync", "async")
_END = object()


class _InThread:
    """An object of the sync client; what is async in its async counterpart runs in a thread."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._value, name)
        if not callable(value):
            return _wrap(value)
        method = getattr(_counterpart(self._value), name)
        if inspect.isasyncgenfunction(method):
            return lambda *a, **k: _iterate(value(*a, **k))
        if not inspect.iscoroutinefunction(method):
            return lambda *a, **k: _wrap(value(*a, **k))

        async def call(*args: Any, **more: Any) -> Any:
            return _wrap(await asyncio.to_thread(value, *args, **more))

        return call

    def __aiter__(self) -> AsyncIterator[Any]:
        return _iterate(iter(self._value))


async def _iterate(items: Any) -> AsyncIterator[Any]:
    try:
        while (item := await asyncio.to_thread(next, items, _END)) is not _END:
            yield item
    finally:
        await asyncio.to_thread(items.close)


def _counterpart(value: Any) -> Any:
    module = inspect.getmodule(type(value))
    assert module is not None
    name = module.__name__.replace("._sync.", "._async.")
    return getattr(sys.modules[name], f"Async{type(value).__name__}")


def _wrap(value: Any) -> Any:
    is_ours = type(value).__module__.startswith("choir_client._sync.")
    return _InThread(value) if is_ours else value


@contextlib.asynccontextmanager
async def a_client(
    kind: str, url: str | None = None, **more: Any
) -> AsyncIterator[AsyncChoirClient]:
    """Open a client of this kind."""
    if kind == "async":
        async with AsyncChoirClient(url, **more) as client:
            yield client
        return
    with ChoirClient(url, **more) as blocking:
        yield cast(AsyncChoirClient, _InThread(blocking))
