"""Configuration of all tests: hypothesis profiles, and the distribution over parallel workers."""

import gc
import os
import signal
import sys

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests.support.postgres import remove_template_cluster
from tests.support.preloaded_choirctl import stop_servers
from tests.support.rewritten_bytecode import rewrite_test_modules
from tests.support.scheduling import FileScheduler, sort_key
from tests.support.state_machines import register_profiles

# messages are compared in English, whatever the language of the developer
os.environ["CHOIR_LANGUAGE"] = "en"
register_profiles()
# pytest rewrites the asserts of all test modules: eleven seconds unless the bytecode is cached
sys.dont_write_bytecode = False
# Job runners and nohup start programs with SIGINT ignored; processes started by tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite changed test modules before the workers start."""
    if session.config.getoption("numprocesses", None):  # not set in a worker
        rewrite_test_modules(session.config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduler:
    """Return a scheduler that assigns whole files, in our order instead of by number of tests."""
    config.option.loadscopereorder = False
    return FileScheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort long tests first in a parallel run; a single process keeps the order of the files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: sort_key(item.nodeid))


def pytest_unconfigure() -> None:
    """Remove temporary data, also in a worker."""
    remove_template_cluster()
    stop_servers()


def pytest_collection_finish() -> None:
    """Take the tests themselves out of every later garbage collection: half a gigabyte that stays."""
    gc.collect()
    gc.freeze()
