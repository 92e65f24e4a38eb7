"""Checks of an OpenAPI document, as a client generator reads it."""

from collections.abc import Iterator
from typing import Any

METHODS = ("get", "put", "post", "delete", "patch")


def references(value: Any) -> Iterator[str]:
    """Yield every reference in a document, including those of discriminators."""
    match value:
        case str() if value.startswith("#/"):
            yield value
        case dict():
            for inner in value.values():
                yield from references(inner)
        case list():
            for inner in value:
                yield from references(inner)


def unresolved(document: dict[str, Any]) -> set[str]:
    """Return the references that do not resolve."""
    return {ref for ref in references(document) if not _resolves(document, ref)}


def _resolves(document: Any, ref: str) -> bool:
    if not ref.startswith("#/"):
        return False
    for part in ref.removeprefix("#/").split("/"):
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True


def schemes(document: dict[str, Any]) -> dict[str, set[str]]:
    """Return the security schemes of each path; fail if one is not declared."""
    declared = document["components"].get("securitySchemes", {})
    found: dict[str, set[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            for asked in operations.get(method, {}).get("security", ()):
                assert asked.keys() <= declared.keys()
                found.setdefault(path, set()).update(asked)
    return found
