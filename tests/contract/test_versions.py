"""The version of an installation has one source: the wheel has no metadata of the single packages."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "libs/choir_common/choir_common/extras.py"


def test_no_module_asks_for_the_version_of_a_single_package() -> None:
    files = [
        path for folder in ("libs", "services", "deploy") for path in (ROOT / folder).rglob("*.py")
    ]
    asking = [path for path in files if "metadata.version(" in path.read_text() and path != SOURCE]
    assert len(files) > 500 and not asking
