"""Which command lines tests run in a fork: those with which the supervisor starts Choir's services."""

import sys

import pytest

from choir_local import child_start
from choir_local.confinement import CONFINE
from choir_local.services import PYTHON
from tests.support.forked_services import SERVICES, ServiceStart, parse_service_start

SETUP = (sys.executable, "-I", "-S", child_start.__file__, "7", "15", "same")


@pytest.mark.parametrize("module", SERVICES)
def test_a_service_of_the_supervisor_is_started_in_a_fork(module: str) -> None:
    started = parse_service_start([*SETUP, *PYTHON, module, "--fd", "3"])
    assert started == ServiceStart(module, ("--fd", "3"), 7, 15, "same")


def test_a_confined_service_is_started_in_a_fork() -> None:
    options = ("--service", "browser", "--read", "/usr")
    words = [*SETUP, *CONFINE, *options, "--", *PYTHON, "choir_browser"]
    started = ServiceStart("choir_browser", (), 7, 15, "same", options)
    assert parse_service_start(words) == started


@pytest.mark.parametrize(
    "line",
    [
        ("git", "status"),
        SETUP,
        (*SETUP, "postgres", "-D", "data"),
        (*PYTHON, "choir_agent"),
        (sys.executable, "-c", "pass"),
        (*PYTHON,),
    ],
)
def test_another_program_is_executed(line: tuple[str, ...]) -> None:
    assert parse_service_start(line) is None
