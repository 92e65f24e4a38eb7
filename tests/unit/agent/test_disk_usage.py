"""Counting of directories that change while they are counted."""

from pathlib import Path

from choir_agent.call_launcher.disk_usage import ENTRIES_PER_STEP, DiskCounter


def test_a_file_that_is_deleted_during_a_count_hides_no_other_file(tmp_path: Path) -> None:
    for number in range(10 * ENTRIES_PER_STEP):
        (tmp_path / str(number)).touch()
    counter = DiskCounter([str(tmp_path)])
    assert not counter.advance(0)
    # the names were read already, so the counter still meets the deleted ones
    files = list(tmp_path.iterdir())
    for file in files[-3:] + files[len(files) // 2 :][:3]:
        file.unlink()
    while not counter.advance(float("inf")):
        pass
    assert counter.usage.files >= len(files) - 6
