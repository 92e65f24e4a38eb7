"""Build all wire models that are imported, which products do one by one when they first use them.

A process that forks others builds them once for all of them.
"""

import gc
import warnings
from collections.abc import Iterator

from pydantic import TypeAdapter
from pydantic.warnings import UnsupportedFieldAttributeWarning

from choir_common.wire.model import WireModel


def build_wire_models() -> None:
    """Build each imported model and adapter. Raises PydanticUserError for a model that cannot be built."""
    for model in _subclasses(WireModel):
        model.model_rebuild()
    with warnings.catch_warnings():
        # those of FastAPI's routes, if any are imported, cause it; FastAPI ignores it, too
        warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
        for adapter in gc.get_objects():
            if type(adapter) is TypeAdapter:
                adapter.rebuild()


def _subclasses(base: type[WireModel]) -> Iterator[type[WireModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _subclasses(model)
