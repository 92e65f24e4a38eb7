"""What `choirctl collection` shows of a folder that is being read."""

import pytest

from choir_common.wire.memory_collections import CollectionView, FolderProgress
from choirctl.output import collection_views
from choirctl.output.collection_views import ScanProgress, describe_state

READING = FolderProgress(
    path="/data/papers",
    state="reading",
    files=100_000,
    waiting=98_766,
    unreadable=1,
    scanned_at=None,
    problem="",
)


def test_the_state_says_how_many_files_are_left_and_unreadable() -> None:
    view = CollectionView(name="papers", documents=1_233, chunks=4_000, folder=READING)
    assert describe_state(view) == (
        "reading, 98,766 of 100,000 files to be read, 1 file not readable"
    )


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collection_views, "LINE_S", 0.0)
    with ScanProgress() as progress:
        progress.show(READING.model_copy(update={"state": "waiting"}))
        progress.show(READING)
        progress.show(READING.model_copy(update={"waiting": 0, "problem": "Postgres is away."}))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "1,234 of 100,000 files read",
        "100,000 of 100,000 files read (Postgres is away)",
    ]
