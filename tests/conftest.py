"""What all tests share: the profile for long random walks, and who runs what when several run at a time."""

import gc
import signal
import sys

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests.support.servers import forget_cluster
from tests.support.sharing import ByFile, turn
from tests.support.steps import register_profiles

register_profiles()
# pytest rewrites all modules of tests for their asserts, eleven seconds' work for each worker unless kept
sys.dont_write_bytecode = False
# Job runners and nohup start programs with SIGINT ignored, and all that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Hand out whole files, in our order instead of the files with most tests first."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long; alone, a process keeps to the order of the files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: turn(item.nodeid))


def pytest_unconfigure() -> None:
    """Leave nothing behind, in a worker either."""
    forget_cluster()


def pytest_collection_finish() -> None:
    """Take the tests themselves out of every later garbage collection: half a gigabyte that stays."""
    gc.collect()
    gc.freeze()
