"""Skip marker for tests that need a real Chromium."""

import shutil

import pytest

needs_chromium = pytest.mark.skipif(
    shutil.which("chromium") is None,
    reason="NOT TESTED: the browser needs Chromium (Debian: apt-get install chromium)",
)
