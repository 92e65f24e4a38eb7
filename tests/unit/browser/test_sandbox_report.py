"""What the browser service reports about Chromium's own sandbox."""

import sys
from pathlib import Path

import pytest

from choir_browser.blobs.store import BlobStore
from choir_browser.contexts.engine_manager import ChromiumLauncher, EngineManager
from choir_browser.endpoints import ChromiumState
from choir_browser.limits.kill_policy import KillReasons
from choir_browser.pages.engine import LaunchOptions
from choir_common.clock import SystemClock
from choir_common.wire.browser import NO_SANDBOX


@pytest.mark.parametrize("sandbox", [True, False])
def test_the_state_of_chromium_says_when_its_sandbox_is_off(sandbox: bool) -> None:
    clock, program = SystemClock(), Path(sys.executable)
    blobs = BlobStore(clock, 1)
    launch = LaunchOptions(program, sandbox, "http://127.0.0.1:1", 1, blobs, KillReasons(clock))
    manager = EngineManager(ChromiumLauncher(), launch, clock)
    assert (NO_SANDBOX in ChromiumState(manager, program, sandbox).describe()) == (not sandbox)
    blobs.close()
