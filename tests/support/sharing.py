"""Who runs which tests when several run at a time, and in what order.

Called by tests/conftest.py. Tests of one file stay together, for they may share what one of them made; all
that use the Docker engine stay together, for what one makes or removes there another would see. The groups
of pytest-xdist (`xdist_group`) cannot say so: it writes them into node ids, which this pytest does not allow.
"""

import functools
import re
from pathlib import Path

from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
ENGINE = re.compile(r"^from tests\.(compose|service\.runtimes)\.containers import", re.MULTILINE)
# what takes long begins early, and the many small ones fill up the end
LONGEST_FIRST = ("faults", "journey", "security", "service", "contract", "unit")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole files, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        path = path_of(nodeid)
        return "the Docker engine" if uses_engine(path) else path


def turn(nodeid: str) -> int:
    """Return how early a test begins, 0 first."""
    path = path_of(nodeid)
    if uses_engine(path):
        return 0
    folder = Path(path).parts[1]
    return 1 + (LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else 0)


def path_of(nodeid: str) -> str:
    """Return a test's file, relative to the project."""
    return nodeid.partition("::")[0]


@functools.cache
def uses_engine(path: str) -> bool:
    """Tell whether the tests of a file use the Docker engine: they import what reaches it."""
    return ENGINE.search((ROOT / path).read_text()) is not None
