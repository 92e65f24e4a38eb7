"""Import of the openai SDK without its response types, which Choir does not use.

The response types are hundreds of pydantic models: 12 MB and 0.3 s in every agent, for calls that `post` does
not make. During the import, empty classes replace them; afterwards the replacements are removed, so that a
later import gets the real types. An import hook is the only way: the SDK itself imports its types eagerly.
"""

import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from choir_models.openai.sdk_client import OpenAiClient

log = structlog.get_logger("choir.agent.model")

SDK = "openai"
STUBBED_MODULES = (
    "openai.types",
    "openai.lib._parsing",
    "openai.lib._tools",
    "openai.lib.streaming",
)


class _StubModule(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        stub = type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        setattr(self, name, stub)
        return stub


class _StubFinder(MetaPathFinder, Loader):
    """Import finder that replaces the modules of response types by blank ones."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == part or fullname.startswith(f"{part}.") for part in STUBBED_MODULES):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def import_client_class() -> "type[OpenAiClient]":
    """Return the client class, which imports the SDK; on failure import the complete SDK."""
    if SDK in sys.modules:
        return _import_client()
    finder = _StubFinder()
    sys.meta_path.insert(0, finder)
    try:
        return _import_client()
    except (ImportError, AttributeError, TypeError) as error:
        log.warning(
            "cannot import the SDK without its types; importing it completely", error=str(error)
        )
        _forget(name for name in sys.modules if name == SDK or name.startswith(f"{SDK}."))
        sys.meta_path.remove(finder)
        return _import_client()
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        _forget(name for name, module in sys.modules.items() if isinstance(module, _StubModule))


def _import_client() -> "type[OpenAiClient]":
    from choir_models.openai.sdk_client import OpenAiClient  # noqa: PLC0415 - time and memory, see above

    return OpenAiClient


def _forget(names: Iterable[str]) -> None:
    for name in list(names):
        del sys.modules[name]
