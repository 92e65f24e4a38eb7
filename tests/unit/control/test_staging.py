"""Files are laid into a workspace where the agent may have put links, files and names in the way."""

import os
import time
from pathlib import Path

import pytest

from choir_common.errors import Conflict
from choir_control.workspaces.staging import MOST_BYTES, StagedFile, remove_drafts, safe_name


def lay(root: Path, name: str, content: bytes = b"new", *, again: bool = False) -> str:
    draft = StagedFile(root, "send")
    try:
        draft.write(content)
        return draft.finish(name, again=again)
    finally:
        draft.close()


def test_a_file_gets_a_name_of_its_own_and_replaces_nothing(tmp_path: Path) -> None:
    paths = [lay(tmp_path, "a.png", content) for content in (b"1", b"2", b"3")]
    assert paths == [f".choirtmp/send/{name}" for name in ("a.png", "a-2.png", "a-3.png")]
    assert [(tmp_path / path).read_bytes() for path in paths] == [b"1", b"2", b"3"]
    assert lay(tmp_path, "plain") == ".choirtmp/send/plain"
    assert lay(tmp_path, "plain") == ".choirtmp/send/plain-2"
    assert len(list((tmp_path / ".choirtmp/send").iterdir())) == 5, "no draft is left"


def test_what_is_done_again_takes_its_own_place(tmp_path: Path) -> None:
    assert lay(tmp_path, "a.png", b"cut off", again=True) == ".choirtmp/send/a.png"
    assert lay(tmp_path, "a.png", b"whole", again=True) == ".choirtmp/send/a.png"
    [file] = (tmp_path / ".choirtmp/send").iterdir()
    assert file.read_bytes() == b"whole"


def test_whoever_the_agent_is_it_can_read_what_was_laid(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = lay(tmp_path, "a.png")
    finally:
        os.umask(before)
    assert (tmp_path / path).stat().st_mode & 0o777 == 0o644


def test_what_is_not_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    draft = StagedFile(tmp_path, "recv")
    draft.write(b"half")
    draft.close()
    assert list((tmp_path / ".choirtmp" / "recv").iterdir()) == []


def test_what_was_given_up_is_written_no_more(tmp_path: Path) -> None:
    draft = StagedFile(tmp_path, "recv")
    draft.close()
    # whose descriptors have the numbers that the draft had
    with (tmp_path / "one").open("wb"), (tmp_path / "two").open("wb"):
        with pytest.raises(OSError, match="Bad file descriptor"):
            draft.write(b"late")
        with pytest.raises(OSError, match="Bad file descriptor"):
            draft.finish("late")
    assert [(tmp_path / name).read_bytes() for name in ("one", "two")] == [b"", b""]


def test_what_a_dead_choird_was_writing_is_removed_after_a_while(tmp_path: Path) -> None:
    StagedFile(tmp_path, "recv").write(b"half")
    StagedFile(tmp_path, "send").write(b"half")
    kept = lay(tmp_path, "mine.txt")
    now = time.time()
    assert remove_drafts(tmp_path, now) == 0, "somebody may be writing them yet"
    assert remove_drafts(tmp_path, now + 3_700) == 2
    left = [path.name for path in (tmp_path / ".choirtmp").rglob("*") if path.is_file()]
    assert left == ["mine.txt"] and (tmp_path / kept).read_bytes() == b"new"
    assert remove_drafts(tmp_path / "nowhere", now) == 0


@pytest.mark.parametrize("place", [".choirtmp", ".choirtmp/send"])
def test_a_link_in_place_of_the_staging_area_is_not_followed(tmp_path: Path, place: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "desk"
    outside.mkdir()
    (outside / ".choir-old").touch()
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(outside)
    with pytest.raises(Conflict, match="cannot be used"):
        lay(root, "a.png")
    assert remove_drafts(root, time.time() + 10_000) == 0
    assert [path.name for path in outside.iterdir()] == [".choir-old"]


@pytest.mark.parametrize("again", [False, True])
def test_a_link_with_the_files_name_leads_nowhere(tmp_path: Path, again: bool) -> None:
    victim, send = tmp_path / "victim", tmp_path / "desk" / ".choirtmp" / "send"
    victim.write_bytes(b"precious")
    send.mkdir(parents=True)
    (send / "a.png").symlink_to(victim)
    laid = tmp_path / "desk" / lay(tmp_path / "desk", "a.png", again=again)
    assert laid.name == ("a.png" if again else "a-2.png")
    assert laid.read_bytes() == b"new" and not laid.is_symlink()
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", ".hidden", "a\x00b", "", "..", "x" * 500, "a." + "é" * 300]
)
def test_a_strangers_name_becomes_a_plain_one(name: str) -> None:
    safe = safe_name(name)
    assert safe and "/" not in safe and "\x00" not in safe
    assert not safe.startswith(".") and len(safe.encode()) <= MOST_BYTES


def test_a_name_stays_as_it_is_as_far_as_it_is_harmless() -> None:
    assert safe_name("übung-1 (2).tar.gz") == "übung-1_2_.tar.gz"
    assert safe_name("C:\\x\\my cat?.JPG") == "my_cat_.JPG"
    assert safe_name("../../etc/passwd") == "passwd" and safe_name("...") == "file"
