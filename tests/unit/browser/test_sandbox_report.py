"""What the browser service reports about Chromium's own sandbox, and about its confinement."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_browser.blobs.store import BlobStore
from choir_browser.contexts.engine_manager import ChromiumLauncher, EngineManager
from choir_browser.endpoints import ChromiumState
from choir_browser.limits.kill_policy import KillReasons
from choir_browser.pages.engine import LaunchOptions
from choir_browser.settings import BrowserSettings
from choir_common.clock import SystemClock
from choir_common.confinement import MISSING_VARIABLE
from choir_common.wire.browser import NO_SANDBOX, NOT_CONFINED

PROGRAM = Path(sys.executable)


@pytest.fixture
def manager() -> Iterator[EngineManager]:
    """A manager whose engine does not run."""
    clock = SystemClock()
    blobs = BlobStore(clock, 1)
    launch = LaunchOptions(PROGRAM, True, "http://127.0.0.1:1", 1, blobs, KillReasons(clock))
    yield EngineManager(ChromiumLauncher(), launch, clock)
    blobs.close()


@pytest.mark.parametrize("sandbox", [True, False])
def test_the_state_of_chromium_says_when_its_sandbox_is_off(
    manager: EngineManager, sandbox: bool
) -> None:
    assert (NO_SANDBOX in ChromiumState(manager, PROGRAM, sandbox).describe()) == (not sandbox)


def test_the_state_of_chromium_names_the_walls_that_the_host_lacks(
    manager: EngineManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as the confinement passes them
    monkeypatch.setenv(MISSING_VARIABLE, '["Landlock: all files"]')
    walls = BrowserSettings.load().missing_walls
    described = ChromiumState(manager, PROGRAM, True, walls).describe()
    assert f"{NOT_CONFINED}: Landlock: all files" in described
    assert NOT_CONFINED not in ChromiumState(manager, PROGRAM, True).describe()
