"""`make bench` measures what the machine allows, and says what it left out."""

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import browsing, show
from tests.bench.figures import BenchResults


def test_without_a_chromium_the_browser_is_left_out_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHOIR_CHROMIUM", raising=False)
    results = BenchResults(start_s={"cold_up": 1.5})
    browsing(results)
    assert results.browser == {}
    show(results)
    printed = " ".join(capsys.readouterr().out.split())
    assert "cold_up" in printed and "Left out: browser. No Chromium was found." in printed
    results.write(tmp_path / "results.json")
    written = json.loads((tmp_path / "results.json").read_text())
    assert "Chromium" in written["left_out"]["browser"] and written["start_s"] == {"cold_up": 1.5}
