"""Prepare HTTP routes once per test process, instead of once per application.

Each test of control makes an application of its own. FastAPI prepares each of its 120 routes twice: for the
signature it makes a field with a validator for each parameter, and another one for the answer. They are the
same each time, because they depend on the code of the endpoint only. What belongs to an application (the
function that is called, its dependencies, its services) is never shared.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, TypeAlias, get_args, get_origin

from fastapi import routing
from fastapi._compat import v2
from fastapi.dependencies import utils
from fastapi.dependencies.models import Dependant
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

_Call: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _PreparedCall:
    """The parameters that FastAPI prepared for a function, and for each later one of the same code."""

    annotations: dict[str, Any]
    defaults: tuple[object, object]
    dependant: Dependant

    def fits(self, function: FunctionType) -> bool:
        """Return whether `function` has the same parameters; the dependencies must be the same objects."""
        annotations = function.__annotations__
        return (
            self.defaults == _defaults_of(function)
            and self.annotations.keys() == annotations.keys()
            and all(_is_same(mine, annotations[name]) for name, mine in self.annotations.items())
        )


_adapters: dict[object, TypeAdapter[Any]] = {}
_prepared: dict[object, _PreparedCall] = {}
_answers: dict[object, v2.ModelField] = {}
_get_dependant = utils.get_dependant
_get_return_annotation = utils.get_typed_return_annotation
_create_field = routing.create_model_field


def share_routes() -> None:
    """Let FastAPI reuse what it prepared for equal routes from now on."""
    v2.TypeAdapter = _adapter_of
    utils.get_dependant = routing.get_dependant = _dependant_of
    routing.get_typed_return_annotation = _return_annotation_of
    routing.create_model_field = _answer_of
    routing.compile_path = functools.cache(routing.compile_path)


def _adapter_of(annotated: Any, *, config: Any = None) -> TypeAdapter[Any]:
    kind, *metadata = get_args(annotated)
    key = (kind, repr(metadata), repr(config))
    try:
        adapter = _adapters.get(key)
    except TypeError:  # the type contains something that has no hash
        return TypeAdapter(annotated, config=config)
    if adapter is None:
        adapter = _adapters[key] = TypeAdapter(annotated, config=config)
    return adapter


def _dependant_of(*, path: str, call: _Call, **settings: Any) -> Dependant:
    function = _function_of(call)
    if function is None:
        return _get_dependant(path=path, call=call, **settings)
    key = (function.__module__, function.__code__, path, repr(settings))
    prepared = _prepared.get(key)
    if prepared is None or not prepared.fits(function):
        dependant = _get_dependant(path=path, call=call, **settings)
        # without the function, which would keep its application in memory
        kept = replace(dependant, call=None, dependencies=[*dependant.dependencies])
        _prepared[key] = _PreparedCall(function.__annotations__, _defaults_of(function), kept)
        return dependant
    # FastAPI adds the dependencies of the application to the list
    stored = prepared.dependant
    return replace(stored, call=call, dependencies=[*stored.dependencies])


def _defaults_of(function: FunctionType) -> tuple[object, object]:
    return function.__defaults__, function.__kwdefaults__


def _return_annotation_of(call: _Call) -> Any:
    function = _function_of(call)
    if function is None:
        return _get_return_annotation(call)
    return function.__annotations__.get("return")


def _answer_of(**settings: Any) -> v2.ModelField:
    key = tuple(settings.items())
    try:
        field = _answers.get(key)
    except TypeError:  # the type contains something that has no hash
        return _create_field(**settings)
    if field is None:
        field = _answers[key] = _create_field(**settings)
    return field


def _function_of(call: _Call) -> FunctionType | None:
    """Return the function whose code decides how `call` is called; None if that is not simple."""
    function = call if inspect.isfunction(call) else inspect.getattr_static(type(call), "__call__")
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return None
    if any(isinstance(annotation, str) for annotation in function.__annotations__.values()):
        return None  # FastAPI evaluates it
    return function


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two annotations are equal; those of two runs of one function are other objects."""
    if one == other:
        return True
    if get_origin(one) is not get_origin(other):
        return False
    parts, others = get_args(one), get_args(other)
    if not parts or len(parts) != len(others):
        return _is_same_field(one, other)
    return all(_is_same(mine, its) for mine, its in zip(parts, others, strict=True))


def _is_same_field(one: object, other: object) -> bool:
    return (
        isinstance(one, FieldInfo)
        and type(one) is type(other)
        and [*one.__repr_args__()] == [*other.__repr_args__()]
    )
