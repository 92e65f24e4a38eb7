"""Import a module when it is needed: the one place that does so, for the sake of a quick start.

`--help` needs none of the commands, and asking once needs no line editor.
"""

import importlib
from types import ModuleType


def load(module: str) -> ModuleType:
    """Return the module of that name."""
    return importlib.import_module(module)
