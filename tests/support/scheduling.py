"""Distribution and order of tests over parallel pytest-xdist workers.

Used by tests/conftest.py. Tests of one file run in one worker, because they may share fixtures, and so do
those of some files of choirctl, which share a stack. All tests that use the Docker engine run in one worker,
because they would see each other's containers and images.
`xdist_group` cannot be used: it changes node ids, which this version of pytest does not allow.
"""

import functools
import re
from pathlib import Path

from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
ENGINE = re.compile(r"^from tests\.(compose|service\.runtimes)\.containers import", re.MULTILINE)
ONE_STACK = re.compile(
    r"tests/service/choirctl/test_(collection|config_and_secrets|german|nouns|smoke|terminal)\.py"
)
# long tests start first, and the many short ones fill the remaining time
LONGEST_FIRST = ("faults", "journey", "security", "service", "contract", "unit")


class FileScheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Scheduler that assigns whole files, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        path = path_of(nodeid)
        if ONE_STACK.fullmatch(path):
            return "the stack of choirctl"
        return "the Docker engine" if uses_engine(path) else path


def sort_key(nodeid: str) -> int:
    """Return the sort key of a test; 0 starts first."""
    path = path_of(nodeid)
    if uses_engine(path):
        return 0
    folder = Path(path).parts[1]
    return 1 + (LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else 0)


def path_of(nodeid: str) -> str:
    """Return a test's file, relative to the repository root."""
    return nodeid.partition("::")[0]


@functools.cache
def uses_engine(path: str) -> bool:
    """Return whether the tests of a file use the Docker engine: they import its helper module."""
    return ENGINE.search((ROOT / path).read_text()) is not None
