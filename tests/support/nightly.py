"""Marks of tests that repeat what others show; `make nightly` runs them, `make test` does not."""

from collections.abc import Iterable

import pytest


def nightly_from(count: int, values: Iterable[object]) -> list[object]:
    """Return a test's parameters, and mark all but the first `count` for `make nightly`."""
    return [
        value if number < count else pytest.param(value, marks=pytest.mark.nightly)
        for number, value in enumerate(values)
    ]
