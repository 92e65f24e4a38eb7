"""Emptying a workspace deletes what is in it, whatever that is, and nothing else."""

import os
import sys
from pathlib import Path
from threading import Event

import pytest

from choir_common.errors import Conflict
from choir_control.workspaces.deletion import delete_contents
from choir_control.workspaces.directory import check_may_be_emptied, measure_workspace

DEEP = 1_500  # more levels than Python recurses, in a path longer than any may be


class SilentListener:
    """A listener that ignores the progress."""

    def note_removed(self, count: int) -> None:
        pass


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the workspace that must not change."""
    place = tmp_path / "outside"
    (place / "inner").mkdir(parents=True)
    (place / "keep").write_text("keep")
    return place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir()
    return place


def test_everything_goes_and_links_are_not_followed(root: Path, outside: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("x")
    (root / ".hidden").write_text("x")
    (root / "to-directory").symlink_to(outside)
    (root / "a/to-file").symlink_to(outside / "keep")
    (root / "a/b/up").symlink_to("../../..")
    os.link(outside / "keep", root / "second-name")
    os.mkfifo(root / "a/fifo")
    (root / "bad\udcffname").write_text("x")
    (root / "line\nbreak").mkdir()
    done = delete_contents(root, SilentListener())
    assert list(root.iterdir()) == [] and done.failures == []
    assert done.removed == 11
    assert (outside / "keep").read_text() == "keep" and (outside / "inner").is_dir()


def test_a_tree_deeper_than_any_path_goes(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d" * 10, dir_fd=here)
        inner = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert sys.getrecursionlimit() < DEEP
    done = delete_contents(root, SilentListener())
    assert done.removed == DEEP and done.failures == [] and list(root.iterdir()) == []


def test_directories_without_permissions_go(root: Path) -> None:
    (root / "shut/inner").mkdir(parents=True)
    (root / "shut/inner/file").write_text("x")
    (root / "shut/inner").chmod(0)
    (root / "shut").chmod(0)
    assert delete_contents(root, SilentListener()).failures == [] and list(root.iterdir()) == []


def test_a_link_in_place_of_the_workspace_is_refused(tmp_path: Path, outside: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(outside)
    with pytest.raises(OSError, match="Not a directory|symbolic"):
        delete_contents(link, SilentListener())
    with pytest.raises(Conflict, match="symbolic link"):
        check_may_be_emptied(link, tmp_path / "home")


def test_only_a_directory_of_its_own_may_be_emptied(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "workspaces/main").mkdir(parents=True)
    assert check_may_be_emptied(home / "workspaces/main", home) == home / "workspaces/main"
    kept = [
        *("/", "/etc", "/usr", "/tmp/..", "relative/path"),
        *(Path.home(), Path.home().parent, home, tmp_path),
        *(home / part for part in ("data", "socks", "repos/global", "logs", "workspaces/../run")),
    ]
    for path in kept:
        with pytest.raises(Conflict, match="cannot be emptied"):
            check_may_be_emptied(Path(path), home)


def test_a_directory_with_a_mount_inside_is_refused(tmp_path: Path) -> None:
    # /sys always has something mounted below it
    with pytest.raises(Conflict, match="mounted at"):
        check_may_be_emptied(Path("/sys/fs"), tmp_path)


def test_what_a_workspace_holds_is_measured_without_links(root: Path, outside: Path) -> None:
    (root / "a").mkdir()
    (root / "a/file").write_bytes(b"x" * 1000)
    (root / "link").symlink_to(outside)
    found = measure_workspace(root, 5, Event())
    assert (found.exists, found.files, found.complete) == (True, 2, True)
    assert 1000 <= found.size < 1500
    (root / "again").hardlink_to(root / "a/file")
    assert measure_workspace(root, 5, Event()).allocated == found.allocated
    assert not measure_workspace(root / "none", 5, Event()).exists


def test_measuring_ends_when_its_time_is_over_or_it_is_cancelled(root: Path) -> None:
    for number in range(600):
        (root / str(number)).touch()
    cancelled = Event()
    assert measure_workspace(root, 5, cancelled).complete
    assert not measure_workspace(root, 0, cancelled).complete
    cancelled.set()
    assert not measure_workspace(root, 5, cancelled).complete
