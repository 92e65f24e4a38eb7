"""Files are laid into a workspace where the agent may have put links, files and names in the way."""

from pathlib import Path

import pytest

from choir_common.errors import Conflict
from choir_control.hosttools.takeaway import harmless
from choir_control.workspaces.laying import Draft


def lay(root: Path, name: str, content: bytes = b"new") -> str:
    draft = Draft(root, "send")
    try:
        draft.write(content)
        return draft.finish(name)
    finally:
        draft.close()


def test_a_file_gets_a_name_of_its_own_and_replaces_nothing(tmp_path: Path) -> None:
    paths = [lay(tmp_path, "a.png", content) for content in (b"1", b"2", b"3")]
    assert paths == [f".choirtmp/send/{name}" for name in ("a.png", "a-2.png", "a-3.png")]
    assert [(tmp_path / path).read_bytes() for path in paths] == [b"1", b"2", b"3"]
    assert lay(tmp_path, "plain") == ".choirtmp/send/plain"
    assert lay(tmp_path, "plain") == ".choirtmp/send/plain-2"


def test_what_is_not_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    draft = Draft(tmp_path, "recv")
    draft.write(b"half")
    draft.close()
    assert list((tmp_path / ".choirtmp" / "recv").iterdir()) == []


@pytest.mark.parametrize("place", [".choirtmp", ".choirtmp/send"])
def test_a_link_in_place_of_the_staging_area_is_not_followed(tmp_path: Path, place: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "desk"
    outside.mkdir()
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(outside)
    with pytest.raises(Conflict, match="cannot be used"):
        lay(root, "a.png")
    assert list(outside.iterdir()) == []


def test_a_link_with_the_files_name_is_left_alone(tmp_path: Path) -> None:
    victim, send = tmp_path / "victim", tmp_path / "desk" / ".choirtmp" / "send"
    victim.write_bytes(b"precious")
    send.mkdir(parents=True)
    (send / "a.png").symlink_to(victim)
    assert lay(tmp_path / "desk", "a.png") == ".choirtmp/send/a-2.png"
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", ".hidden", "a\x00b", "", "..", "x" * 500]
)
def test_a_name_from_the_browser_is_believed_no_more_than_a_strangers(name: str) -> None:
    safe = harmless(name)
    assert safe and "/" not in safe and "\x00" not in safe
    assert not safe.startswith(".") and len(safe) <= 80
