"""No service loads rich, which structlog imports if it is installed."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENTRY_POINTS = sorted(
    (
        *ROOT.glob("services/*/choir_*/__main__.py"),
        ROOT / "deploy/local/choir_local/rehearsal/__main__.py",
    )
)


@pytest.mark.parametrize("path", ENTRY_POINTS, ids=lambda path: path.parent.name)
def test_an_entry_point_forbids_rich_before_it_imports_choir(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = path.read_text()
    before_imports, import_, _ = program.partition("\nfrom choir_")
    assert import_, "it imports nothing of Choir"
    monkeypatch.delitem(sys.modules, "rich", raising=False)
    # memory's entry point forbids this one, too; set here, so that it is restored after the test
    monkeypatch.setitem(sys.modules, "greenlet", sys)
    exec(before_imports, {"__name__": "entry_point"})
    assert sys.modules["rich"] is None
