"""Import of a provider's SDK without the parts that Choir does not use.

An SDK has hundreds of pydantic models for its responses, which cost megabytes and seconds in every agent, for
calls that a plain `post` does not make. During the import, empty classes replace them; afterwards the
replacements are removed, so that a later import gets the real modules. An import hook is the only way: the
SDKs import these parts eagerly.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import structlog

log = structlog.get_logger("choir.models")

_HTTP_CLIENTS = ("aiohttp", "httpx")
"""Packages that SDKs import where they find them, for HTTP clients that Choir does not use: 9 to 18 MB."""


class _StubModule(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        stub = type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        setattr(self, name, stub)
        return stub


class _StubFinder(MetaPathFinder, Loader):
    """Import finder that replaces modules by blank ones."""

    def __init__(self, stubbed: Sequence[str]) -> None:
        self._stubbed = stubbed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == part or fullname.startswith(f"{part}.") for part in self._stubbed):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def hidden_http_clients() -> Iterator[None]:
    """Hide HTTP clients from an SDK that is imported in this context, unless they are imported already."""
    names = [name for name in _HTTP_CLIENTS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # None: "not installed"
    try:
        yield
    finally:
        _forget(names)


def import_with_stubs(module: str, *, sdk: str, stubbed: Sequence[str]) -> None:
    """Import a module that uses an SDK, with stubs for parts of it; on failure with the complete SDK."""
    if sdk in sys.modules:
        import_module(module)
        return
    finder = _StubFinder(stubbed)
    sys.meta_path.insert(0, finder)
    try:
        with hidden_http_clients():
            import_module(module)
    except (ImportError, AttributeError, TypeError) as error:
        log.warning("cannot import an SDK without its types; importing it completely", sdk=sdk,
                    error=str(error))  # fmt: skip
        _forget(name for name in sys.modules if name == sdk or name.startswith(f"{sdk}."))
        sys.meta_path.remove(finder)
        import_module(module)
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        _forget(name for name, loaded in sys.modules.items() if isinstance(loaded, _StubModule))


def _forget(names: Iterable[str]) -> None:
    for name in list(names):
        del sys.modules[name]
