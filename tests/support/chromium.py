"""Skip marker for tests that need a real Chromium, and the one that the web page is tested in."""

import shutil

import pytest

PAGE_CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""Chromium without windows takes half the processor time. It blocks no pop-ups: the browser service does
not use it."""

WHOLE_CHROMIUM = shutil.which("chromium")
"""The browser as people have it, with notifications of service workers."""

needs_chromium = pytest.mark.skipif(
    shutil.which("chromium") is None,
    reason="NOT TESTED: the browser needs Chromium (Debian: apt-get install chromium)",
)
