"""A restore in containers moves the entries of the state directory, and continues after a kill anywhere."""

from pathlib import Path

import pytest

from choir_local.backup.restore_in_place import STAGING, STAYS, move_entries


class Killed(BaseException):
    """The process ends here."""


def make_home(root: Path) -> Path:
    """A home with files to replace and to keep, and a complete restore in it."""
    staging = root / STAGING
    for place, names in {
        root: ("config.json", "mine.txt"),
        staging: ("config.json", "agents"),
    }.items():
        place.mkdir(exist_ok=True)
        for name in names:
            (place / name).write_text("old" if place == root else "new")
    (staging / "complete").write_text("before-restore-x\n")
    for name in ("socks", "backups", "workspaces"):
        (root / name).mkdir()
    return root


@pytest.mark.parametrize("kill_at", range(8))
def test_a_killed_restore_is_completed(
    kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_home(tmp_path / "home")
    aside = root / "before-restore-x"
    replace, count = Path.replace, 0

    def replace_or_die(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == kill_at:
            raise Killed
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_die)
    for _ in range(2):
        try:
            move_entries(root, root / STAGING, aside, STAYS | {"workspaces"})
        except Killed:
            continue
    assert (root / "config.json").read_text() == (root / "agents").read_text() == "new"
    assert (aside / "config.json").read_text() == (aside / "mine.txt").read_text() == "old"
    assert {path.name for path in root.iterdir()} == {
        *("config.json", "agents", "socks", "backups", "workspaces", STAGING, aside.name)
    }
