"""Import of the openai SDK without its response types, which Choir does not use.

Called by `openai_model` for the import of `openai_sdk`. The response types are hundreds of pydantic models:
12 MB and 0.3 s in every agent, for calls that `post` does not make. During the import, empty classes
replace them; afterwards the replacements are removed, so that a later import gets the real types.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import structlog

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
        made = type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        setattr(self, name, made)
        return made


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


def _forget(which: Callable[[str], bool]) -> None:
    for module in [module for module in sys.modules if which(module)]:
        del sys.modules[module]


def import_without_types(name: str) -> ModuleType:
    """Import the module `name`, which imports the SDK; on failure import the complete SDK."""
    if SDK in sys.modules:
        return importlib.import_module(name)
    finder = _StubFinder()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError, TypeError) as error:
        log.warning("the SDK needs its types to load; loading it whole", reason=str(error))
        _forget(lambda module: module == SDK or module.startswith(f"{SDK}."))
        sys.meta_path.remove(finder)
        return importlib.import_module(name)
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        _forget(lambda module: isinstance(sys.modules[module], _StubModule))
