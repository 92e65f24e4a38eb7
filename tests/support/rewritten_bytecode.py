"""Rewrite the asserts of all test modules once, before the workers of a parallel run need them.

Used by tests/conftest.py. pytest caches the bytecode of a rewritten module. The workers of the first run in a
new clone start at the same time, and several of them would rewrite the same modules.
"""

import os
import sys
from itertools import chain
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import (
    PYC_TAIL,
    _read_pyc,
    _rewrite_test,
    _write_pyc,
    get_cache_dir,
    try_makedirs,
)
from _pytest.assertion.rewrite import assertstate_key as state_key

# Rewriting all test modules takes eleven seconds, and those of hypothesis one, unless bytecode is cached.
# conftest.py imports this module before those that import hypothesis.
sys.dont_write_bytecode = False

TESTS = Path(__file__).parents[1]
PROCESSES = 2


def rewrite_test_modules(config: pytest.Config) -> None:
    """Write the bytecode of the test modules that changed since the last run, in several processes."""
    stale = [path for path in _modules() if _read_pyc(path, _bytecode_file(path)) is None]
    children = []
    for number in range(min(PROCESSES, len(stale))):
        child = os.fork()
        if child == 0:
            try:
                for path in stale[number::PROCESSES]:
                    _rewrite(path, config)
            finally:
                os._exit(0)  # a module that cannot be rewritten is reported by the workers
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _modules() -> list[Path]:
    return sorted(chain(TESTS.rglob("test_*.py"), TESTS.rglob("conftest.py")))


def _bytecode_file(path: Path) -> Path:
    return get_cache_dir(path) / f"{path.stem}{PYC_TAIL}"


def _rewrite(path: Path, config: pytest.Config) -> None:
    target = _bytecode_file(path)
    if try_makedirs(target.parent):
        source_hash, code = _rewrite_test(path, config)
        _write_pyc(config.stash[state_key], code, source_hash, target)
