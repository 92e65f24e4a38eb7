"""The file tools on a real directory: parts of files, edits by line, all or nothing."""

from pathlib import Path

import pytest

from choir_agent.tools.builtin.fs_read import FsReadTool
from choir_agent.tools.builtin.fs_write import FsWriteTool
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.wire.model import JsonObject

FIVE = "one\ntwo\nthree\nfour\nfive\n"


async def read(root: Path, path: str = "f", **arguments: int) -> JsonObject:
    workspace = Workspace(root)
    try:
        context = CallContext("c", "edge", workspace.canonical(path))
        return (
            await FsReadTool(workspace, WorkspaceFiles(workspace)).run(
                context, {"path": path, **arguments}
            )
        ).output
    finally:
        workspace.close()


async def write(root: Path, content: str, path: str = "f", **arguments: object) -> JsonObject:
    workspace = Workspace(root)
    try:
        context = CallContext("c", "edge", workspace.canonical(path))
        given: JsonObject = {"path": path, "content": content, **arguments}  # type: ignore[dict-item]
        return (await FsWriteTool(workspace).run(context, given)).output
    finally:
        workspace.close()


@pytest.mark.parametrize(
    ("arguments", "text", "first", "last"),
    [
        ({}, FIVE, 1, 5),
        ({"head": 2}, "one\ntwo\n", 1, 2),
        ({"tail": 2}, "four\nfive\n", 4, 5),
        ({"tail": 9}, FIVE, 1, 5),
        ({"start_line": 2, "end_line": 3}, "two\nthree\n", 2, 3),
        ({"start_line": 4}, "four\nfive\n", 4, 5),
        ({"end_line": 1}, "one\n", 1, 1),
        ({"start_line": 5, "end_line": 99}, "five\n", 5, 5),
    ],
)
async def test_parts_of_a_file_are_read_by_line(
    tmp_path: Path, arguments: dict[str, int], text: str, first: int, last: int
) -> None:
    (tmp_path / "f").write_text(FIVE)
    output = await read(tmp_path, **arguments)
    assert (output["text"], output["first_line"], output["last_line"]) == (text, first, last)
    assert output["total_lines"] == 5


@pytest.mark.parametrize(
    "arguments",
    [
        {"head": 1, "tail": 1},
        {"start_line": 3, "end_line": 2},
        {"start_line": 6},
        {"offset": 0, "head": 1},
        {"offset": 25},
    ],
)
async def test_a_part_that_is_none_is_refused(tmp_path: Path, arguments: dict[str, int]) -> None:
    (tmp_path / "f").write_text(FIVE)
    with pytest.raises(ToolFailed) as caught:
        await read(tmp_path, **arguments)
    assert caught.value.kind == "bad_input"


async def test_a_binary_file_comes_as_base64_and_a_large_one_is_cut(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x00\x01" * 9000)
    output = await read(tmp_path)
    assert (output["binary"], output["bytes"], output["next_offset"]) == (True, 18_000, 3_000)
    (tmp_path / "f").write_text("line\n" * 20_000)
    output = await read(tmp_path)
    assert output["truncated"] is True
    assert len(str(output["text"])) == 60_000


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        ({}, "NEW\n"),
        ({"mode": "append"}, FIVE + "NEW\n"),
        ({"mode": "replace", "start_line": 2, "end_line": 4}, "one\nNEW\nfive\n"),
        ({"mode": "insert", "start_line": 1}, "NEW\n" + FIVE),
        ({"mode": "insert", "start_line": 6}, FIVE + "NEW\n"),
        (
            {"mode": "replace", "start_line": 2, "end_line": 2, "expect": "two"},
            "one\nNEW\nthree\nfour\nfive\n",
        ),
    ],
)
async def test_files_are_edited_by_line(
    tmp_path: Path, arguments: dict[str, object], after: str
) -> None:
    (tmp_path / "f").write_text(FIVE)
    await write(tmp_path, "NEW\n", **arguments)
    assert (tmp_path / "f").read_text() == after


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "replace", "start_line": 4, "end_line": 9},
        {"mode": "replace"},
        {"mode": "insert", "start_line": 7},
        {"mode": "insert"},
    ],
)
async def test_an_edit_of_lines_that_do_not_exist_changes_nothing(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    (tmp_path / "f").write_text(FIVE)
    with pytest.raises(ToolFailed):
        await write(tmp_path, "NEW\n", **arguments)
    assert (tmp_path / "f").read_text() == FIVE
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


async def test_directories_are_made_and_the_mode_is_kept(tmp_path: Path) -> None:
    assert (await write(tmp_path, "x", path="a/b/c.txt"))["created"] is True
    place = tmp_path / "a/b/c.txt"
    place.chmod(0o755)
    assert (await write(tmp_path, "y", path="a/b/c.txt"))["created"] is False
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("y", 0o755)


async def test_an_append_to_a_missing_file_makes_it(tmp_path: Path) -> None:
    await write(tmp_path, "x", mode="append")
    assert (tmp_path / "f").read_text() == "x"


async def test_a_link_inside_the_workspace_leads_to_the_file_it_names(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    await write(tmp_path, "new", path="link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (await read(tmp_path, path="link"))["path"] == "real"


async def test_chunks_of_bytes_add_up_to_the_file_and_cut_no_character(tmp_path: Path) -> None:
    whole = "äöü€😀" * 20_000
    (tmp_path / "f").write_text(whole)
    text, offset = "", 0
    while True:
        output = await read(tmp_path, offset=offset, length=9_999)
        text += str(output["text"])
        if "next_offset" not in output:
            break
        offset = int(str(output["next_offset"]))
    assert text == whole


async def test_a_cut_line_goes_on_at_the_next_offset(tmp_path: Path) -> None:
    whole = "x" * 100_000
    (tmp_path / "f").write_text(whole)
    start = await read(tmp_path)
    rest = await read(tmp_path, offset=int(str(start["next_offset"])))
    assert str(start["text"]) + str(rest["text"]) == whole


async def test_reading_and_writing_count_lines_alike(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\x0bb\xe2\x80\xa8c\rd\ne\n")
    output = await read(tmp_path, start_line=2)
    assert (output["text"], output["total_lines"]) == ("e\n", 2)
    await write(tmp_path, "E\n", mode="replace", start_line=2, end_line=2)
    assert (tmp_path / "f").read_bytes() == b"a\x0bb\xe2\x80\xa8c\rd\nE\n"


@pytest.mark.parametrize("mode", ["overwrite", "append", "replace", "insert"])
async def test_an_edit_of_a_file_that_changed_meanwhile_is_refused(
    tmp_path: Path, mode: str
) -> None:
    (tmp_path / "f").write_text(FIVE)
    seen = (await read(tmp_path))["hash"]
    (tmp_path / "f").write_text(FIVE + "six\n")
    lines = {"start_line": 1, "end_line": 1}
    with pytest.raises(ToolFailed) as caught:
        await write(tmp_path, "NEW\n", mode=mode, expect_hash=seen, **lines)
    assert caught.value.kind == "changed"
    assert (tmp_path / "f").read_text() == FIVE + "six\n"
    now = str(caught.value.details["hash"])
    done = await write(tmp_path, "NEW\n", mode=mode, expect_hash=now, **lines)
    assert done["hash"] == (await read(tmp_path))["hash"]


async def test_lines_that_are_not_as_expected_are_shown_and_left(tmp_path: Path) -> None:
    (tmp_path / "f").write_text(FIVE)
    with pytest.raises(ToolFailed) as caught:
        await write(
            tmp_path, "NEW\n", mode="replace", start_line=2, end_line=3, expect="one\ntwo\n"
        )
    assert (caught.value.kind, caught.value.details) == ("changed", {"present": "two\nthree\n"})
    assert (tmp_path / "f").read_text() == FIVE


async def test_create_makes_a_file_and_never_replaces_one(tmp_path: Path) -> None:
    assert (await write(tmp_path, "new", mode="create"))["created"] is True
    with pytest.raises(ToolFailed) as caught:
        await write(tmp_path, "other", mode="create")
    assert caught.value.kind == "exists"
    assert (tmp_path / "f").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


async def test_an_empty_file_has_no_lines_and_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    output = await read(tmp_path)
    assert (output["text"], output["total_lines"]) == ("", 0)
