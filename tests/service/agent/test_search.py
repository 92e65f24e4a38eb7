"""choir.fs.search with a real ripgrep on real files: what it finds, where it stops, what it never reads."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_agent.arbiter.rulings import CheckedCall, check_call
from choir_agent.tools import ripgrep
from choir_agent.tools.builtin.fs_search import FsSearchTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.ripgrep import MatchCollector, find_ripgrep
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.wire.events import HeldLock, ToolCall
from choir_common.wire.model import JsonObject

pytestmark = pytest.mark.skipif(find_ripgrep() is None, reason="LOUD: there is no ripgrep here")


SWAP = """
import os, sys, time
os.chdir(sys.argv[1])
while True:
    os.rename("real", "moved")
    os.symlink(sys.argv[2], "real")
    time.sleep(0.0005)
    os.unlink("real")
    os.rename("moved", "real")
    time.sleep(0.0005)
"""


class Place:
    """A workspace to search."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = Workspace(root)
        self.tool = FsSearchTool(self.workspace, ProgramRunner(root, "/tmp"))

    def put(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    async def search(self, pattern: str, path: str = ".", **arguments: object) -> JsonObject:
        context = CallContext("call_1", "edge", self.workspace.canonical(path))
        given: JsonObject = {"pattern": pattern, "path": path}
        given |= arguments  # type: ignore[arg-type]
        return (await self.tool.run(context, given)).output

    async def paths(self, pattern: str, path: str = ".", **arguments: object) -> list[object]:
        found = await self.search(pattern, path, files_only=True, **arguments)
        files = found["files"]
        assert isinstance(files, list)
        return [*files]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Make a workspace with a few files."""
    root = tmp_path / "ws"
    root.mkdir()
    made = Place(root)
    made.put("a.py", "import os\nneedle = 1\nend\n")
    made.put("src/b.py", "x\ny\nNEEDLE\nz\n")
    made.put("src/c.txt", "a needle here\n")
    yield made
    made.workspace.close()


async def test_matches_come_by_file_with_their_lines(place: Place) -> None:
    assert await place.search("needle") == {
        "summary": "2 matches in 2 files",
        "files": [
            {"path": "a.py", "lines": [{"line": 2, "text": "needle = 1"}]},
            {"path": "src/c.txt", "lines": [{"line": 1, "text": "a needle here"}]},
        ],
    }


async def test_context_lines_stand_beside_their_match(place: Place) -> None:
    found = await place.search("needle", "a.py", context_lines=1)
    assert found["files"] == [
        {
            "path": "a.py",
            "lines": [
                {"line": 1, "text": "import os", "context": True},
                {"line": 2, "text": "needle = 1"},
                {"line": 3, "text": "end", "context": True},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({}, ["a.py", "src/c.txt"]),
        ({"case": "insensitive"}, ["a.py", "src/b.py", "src/c.txt"]),
        ({"case": "smart"}, ["a.py", "src/b.py", "src/c.txt"]),
        ({"glob": ["*.txt"]}, ["src/c.txt"]),
        ({"glob": ["!*.txt"]}, ["a.py"]),
        ({"path": "src"}, ["src/c.txt"]),
        ({"path": "src/c.txt"}, ["src/c.txt"]),
        ({"path": "src/b.py"}, []),
    ],
)
async def test_a_search_is_narrowed(
    place: Place, arguments: dict[str, object], paths: list[str]
) -> None:
    assert await place.paths("needle", str(arguments.pop("path", ".")), **arguments) == paths


async def test_literal_text_is_no_expression_and_options_are_no_options(place: Place) -> None:
    place.put("odd", "a.*b --files\n")
    assert await place.paths("a.*b", literal=True) == ["odd"]
    assert await place.paths("--files") == ["odd"]
    assert await place.paths("-e") == []
    assert await place.paths("needle", glob=["--follow"]) == []


async def test_ignored_and_hidden_files_are_left_out_unless_asked_for(place: Place) -> None:
    subprocess.run(["git", "init", "-q", str(place.root)], check=True)
    place.put(".gitignore", "built/\n")
    place.put("built/x", "needle")
    place.put(".hidden", "needle")
    assert await place.paths("needle") == ["a.py", "src/c.txt"]
    everything = await place.paths("needle", all_files=True)
    assert set(everything) == {"a.py", "src/c.txt", "built/x", ".hidden"}


async def test_the_staging_area_is_searched_only_when_it_is_named(place: Place) -> None:
    place.put(".choirtmp/recv/f", "needle")
    assert ".choirtmp/recv/f" not in await place.paths("needle", all_files=True)
    assert await place.paths("needle", ".choirtmp") == [".choirtmp/recv/f"]


async def test_a_search_stops_when_it_has_enough(place: Place) -> None:
    for number in range(200):
        place.put(f"many/{number:03}", "needle\n" * 1000)
    found = await place.search("needle", "many", max_results=1500)
    assert found["truncated"] is True
    assert found["summary"] == "1500 matches in 2 files"
    assert "max_results" in str(found["note"])


async def test_a_bad_expression_is_explained(place: Place) -> None:
    with pytest.raises(ToolFailed) as caught:
        await place.search("(unclosed")
    assert caught.value.kind == "bad_pattern"
    assert "unclosed group" in caught.value.message


async def test_a_long_line_is_cut_around_its_match(place: Place) -> None:
    place.put("min.js", "x" * 50_000 + "needle" + "y" * 50_000)
    found = await place.search("needle", "min.js")
    text = str(found["files"])
    assert "needle" in text
    assert len(text) < 1_000


async def test_names_and_lines_that_are_no_unicode_are_shown_all_the_same(place: Place) -> None:
    (place.root / os.fsdecode(b"n\xff.txt")).write_bytes(b"needle \xff\n")
    assert len(await place.paths("needle")) == 3


def test_a_message_beyond_all_bounds_is_dropped_and_the_next_one_read() -> None:
    sink = MatchCollector(10, files_only=True)
    sink.data_received(b'{"type":"match","data":{"lines":{"text":"')
    for _ in range(30):
        sink.data_received(b"x" * 200_000)
    sink.data_received(b'"}}}\n{"type":"begin","data":{"path":{"text":"./f"}}}\nnot json\n[1]\n')
    assert [hits.path for hits in sink.files] == ["f"]
    assert len(sink._rest) < ripgrep.MAX_MESSAGE_BYTES


async def test_links_that_lead_out_are_not_followed(place: Place, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("needle-outside")
    (place.root / "link").symlink_to(tmp_path / "out")
    (place.root / "file").symlink_to(tmp_path / "out/secret")
    assert await place.paths("needle-outside", all_files=True) == []
    for path in ("link", "file", "../out", str(tmp_path / "out")):
        with pytest.raises(ToolFailed) as caught:
            await place.paths("needle-outside", path)
        assert caught.value.kind == "outside_workspace"


async def test_a_directory_swapped_while_it_is_searched_never_leads_out(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("needle-outside")
    place.put("real/secret", "needle-inside")
    # a process: a thread would wait for our own to let go of the interpreter
    swapper = subprocess.Popen(
        [sys.executable, "-IS", "-c", SWAP, str(place.root), str(tmp_path / "out")]
    )
    tool = FsSearchTool(place.workspace, ProgramRunner(place.root, "/tmp"))
    searched = 0
    try:
        # the path as it was resolved and locked, before all this
        ends_at = time.monotonic() + 10
        while searched < 60 and (not searched or time.monotonic() < ends_at):
            path = ("real", "real/secret")[searched % 2]
            given: JsonObject = {"pattern": "needle-", "path": path}
            try:
                found = await tool.run(CallContext("call_1", "edge", path), given)
            except ToolFailed:
                await asyncio.sleep(0.0003)
                continue
            assert "outside" not in str(found.output)
            searched += 1
    finally:
        swapper.kill()
        swapper.wait()
    assert searched > 0


@pytest.mark.parametrize(
    ("arguments", "resource"),
    [
        ('{"pattern": "x"}', "file:."),
        ('{"pattern": "x", "path": "src"}', "file:src"),
        ('{"pattern": "x", "path": "src/b.py"}', "file:src/b.py"),
        ('{"pattern": "x", "path": ".choirtmp"}', "choirtmp"),
        ('{"pattern": "x", "path": "src/../.choirtmp/recv"}', "choirtmp"),
    ],
)
async def test_a_search_locks_what_it_searches(place: Place, arguments: str, resource: str) -> None:
    call = ToolCall(call_id="c", tool="choir.fs.search", arguments=arguments)
    permit = check_call(call, ToolRegistry([place.tool]), place.workspace)
    assert isinstance(permit, CheckedCall)
    assert permit.locks == (HeldLock(resource=resource, mode="S"),)
