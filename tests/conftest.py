"""Configuration of all tests: hypothesis profiles, and the distribution over parallel workers."""

import asyncio
import fcntl
import gc
import os
import re
import signal
from collections.abc import Callable, Generator

import pytest
import structlog
import uvloop
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests.support.postgres import remove_template_cluster
from tests.support.preloaded_choirctl import stop_servers
from tests.support.rewritten_bytecode import rewrite_test_modules
from tests.support.scheduling import FileScheduler, sort_key
from tests.support.state_machines import register_profiles

ON_UVLOOP = re.compile(r"tests/(service|contract|security)/(control|memory|gateway)/")

# messages are compared in English, whatever the language of the developer
os.environ["CHOIR_LANGUAGE"] = "en"
register_profiles()
# structlog's own renderer draws each traceback with all local variables: seconds for one exception.
# Replaced in place: processes that are forked from this one still see that nobody has configured structlog.
structlog.get_config()["processors"][-1] = structlog.dev.ConsoleRenderer(
    colors=False, exception_formatter=structlog.dev.plain_traceback
)
# Job runners and nohup start programs with SIGINT ignored; processes started by tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite changed test modules before the workers start."""
    if session.config.getoption("numprocesses", None):  # not set in a worker
        rewrite_test_modules(session.config)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests of services on uvloop, as the services run: a quarter of their time was asyncio's loop."""
    if ON_UVLOOP.match(item.nodeid):
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduler:
    """Return a scheduler that assigns whole files, in our order instead of by number of tests."""
    config.option.loadscopereorder = False
    return FileScheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: test modules stay, and looking through them takes a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Sort long tests first in a parallel run; a single process keeps the order of the files.

    One worker at a time, because here hypothesis reads the constants of all our modules: the first one leaves
    them in a cache for the others.
    """
    if not hasattr(config, "workerinput"):
        return (yield)
    cache = config.rootpath / ".hypothesis"
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    items.sort(key=lambda item: sort_key(item.nodeid))


def pytest_unconfigure() -> None:
    """Remove temporary data, also in a worker."""
    remove_template_cluster()
    stop_servers()


def pytest_collection_finish() -> None:
    """Take the tests themselves out of every later garbage collection: half a gigabyte that stays."""
    gc.collect()
    gc.freeze()
