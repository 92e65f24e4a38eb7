"""The lock of a file: one holder at a time, and an end to the waiting."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_common.file_lock import lock_file


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The same file, opened twice."""
    descriptors = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600) for _ in range(2)]
    yield descriptors[0], descriptors[1]
    for descriptor in descriptors:
        os.close(descriptor)


def test_who_waits_too_long_is_told(opened: tuple[int, int]) -> None:
    holder, waiter = opened
    lock_file(holder)
    with pytest.raises(TimeoutError):
        lock_file(waiter, 0.01)


def test_the_lock_ends_with_the_file(tmp_path: Path, opened: tuple[int, int]) -> None:
    holder = os.open(tmp_path / "lock", os.O_RDWR)
    lock_file(holder)
    os.close(holder)
    lock_file(opened[0], 0.01)
