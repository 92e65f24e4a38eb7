"""Wire models are built when they are first used, so no import shows that one cannot be built."""

import importlib
import pkgutil

from choir_common import wire
from tests.support.wire_models import build_wire_models


def test_every_wire_model_can_be_built() -> None:
    for module in pkgutil.iter_modules(wire.__path__, f"{wire.__name__}."):
        importlib.import_module(module.name)
    build_wire_models()
