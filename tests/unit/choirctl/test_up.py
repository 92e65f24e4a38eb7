"""`up` goes on when the chat on top of it fails."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from choir_common.target import Target
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choirctl.commands.up import UpCommand


async def test_a_chat_that_fails_leaves_choir_running_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = UpCommand(Target(tmp_path, None), LocalSettings(home=tmp_path), Home(tmp_path), False)
    printed = io.StringIO()
    # nothing answers there
    assert not await start.chat(Console(file=printed, width=200), "console")
    assert "Choir keeps running without this chat; Ctrl-C stops it." in printed.getvalue()
    assert "Error: " in capsys.readouterr().err
