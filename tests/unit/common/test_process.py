"""A service as a process: how it ends, and how often it looks for garbage."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from choir_common.errors import StartupError
from choir_common.process import run_process
from choir_common.redactor import Redactor
from choir_common.service import GC_THRESHOLDS, run_event_loop


@pytest.fixture(autouse=True)
def own_garbage() -> Iterator[None]:
    """Give the other tests back what is theirs; a pytest worker has frozen all tests (tests/conftest.py)."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    yield
    gc.set_threshold(*thresholds)
    if not frozen:
        gc.unfreeze()


def test_a_service_looks_for_garbage_seldom_and_never_among_what_was_imported() -> None:
    gc.set_threshold(700, 10, 10)
    seen: list[tuple[object, int]] = []

    async def serve() -> None:
        seen.append((gc.get_threshold(), gc.get_freeze_count()))

    run_event_loop(serve())
    (thresholds, frozen), *_ = seen
    assert thresholds == GC_THRESHOLDS
    assert frozen > 10_000


def test_what_a_service_imports_is_not_looked_through_for_garbage_meanwhile() -> None:
    """It cost a tenth of a service's start."""
    asked = "import gc, choir_gateway.__main__; print(gc.get_stats()[2]['collections'])"
    collections = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True)
    assert collections.stdout == b"0\n"


@pytest.mark.parametrize("grouped", [False, True])
def test_one_that_cannot_start_says_so_in_one_paragraph(
    grouped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(_redactor: Redactor) -> int:
        error = StartupError("There is no key.")
        raise ExceptionGroup("tasks", [error]) if grouped else error

    assert run_process(main) == StartupError("x").exit_code
    assert capsys.readouterr().err == "There is no key.\n"
