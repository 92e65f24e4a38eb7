"""A read that is cancelled ends its process, so that the next file has a reader of its own."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from choir_agent.tools import workspace_files
from choir_agent.tools.workspace import Workspace
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.wire.attachments import PictureRef
from choir_files.reader import FileReader

FIRST_HANGS = """
import pathlib, socket, sys, time
from choir_files import child
if not pathlib.Path(sys.argv[1]).exists():
    pathlib.Path(sys.argv[1]).touch()
    connection = socket.socket(fileno=0)
    connection.sendall(child.READY)
    socket.recv_fds(connection, 100, 2)
    pathlib.Path(sys.argv[2]).touch()
    time.sleep(600)
child.main("768", "20")
"""


async def test_the_next_file_is_read_after_a_read_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, reading = tmp_path / "begun", tmp_path / "reading"
    program = [sys.executable, "-c", FIRST_HANGS, str(begun), str(reading)]
    monkeypatch.setattr(workspace_files, "FileReader", partial(FileReader, program=program))
    Image.new("RGB", (6, 4)).save(tmp_path / "cat.png")
    workspace = Workspace(tmp_path)
    files = WorkspaceFiles(workspace)
    try:
        first = asyncio.create_task(files.load_picture(PictureRef(path="cat.png")))
        async with asyncio.timeout(30):
            while not reading.exists():
                await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait({first}, timeout=30)
        assert first.cancelled()
        async with asyncio.timeout(30):
            shown = await files.load_picture(PictureRef(path="cat.png"))
        assert isinstance(shown, bytes), shown
    finally:
        await files.close()
        workspace.close()
