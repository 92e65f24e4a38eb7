"""Lazy import of modules, for a fast start of choirctl; the only place that does it.

`--help` needs no command module, and `chat -m` needs no line editor.
"""

import importlib
from types import ModuleType


def load(module: str) -> ModuleType:
    """Import a module by name and return it."""
    return importlib.import_module(module)
