"""Marks of tests that repeat what others show; `make nightly` runs them, `make test` does not."""

from collections.abc import Iterable

import pytest


def nightly_from(count: int, values: Iterable[object]) -> list[object]:
    """Return a test's parameters, and mark all but the first `count` for `make nightly`."""
    return [
        value if number < count else pytest.param(value, marks=pytest.mark.nightly)
        for number, value in enumerate(values)
    ]


def nightly_but_every(step: int, values: Iterable[object]) -> list[object]:
    """Return a test's parameters, and mark all but each `step`-th for `make nightly`, from the first on."""
    return [
        value if number % step == 0 else pytest.param(value, marks=pytest.mark.nightly)
        for number, value in enumerate(values)
    ]
