"""Counting of directories that change while they are counted."""

from pathlib import Path

from choir_agent.call_launcher.disk_usage import ENTRIES_PER_STEP, DiskCounter, DiskLimits


def test_a_file_that_is_deleted_during_a_count_hides_no_other_file(tmp_path: Path) -> None:
    for number in range(10 * ENTRIES_PER_STEP):
        (tmp_path / str(number)).touch()
    counter = DiskCounter([str(tmp_path)], DiskLimits())
    assert not counter.advance(0)
    # the names were read already, so the counter still meets the deleted ones
    files = list(tmp_path.iterdir())
    for file in files[-3:] + files[len(files) // 2 :][:3]:
        file.unlink()
    while not counter.advance(float("inf")):
        pass
    assert counter.usage.files >= len(files) - 6


def test_a_directory_that_grows_as_fast_as_it_is_read_is_counted_to_twice_the_limit(
    tmp_path: Path,
) -> None:
    for number in range(10 * ENTRIES_PER_STEP):
        (tmp_path / str(number)).touch()
    counter = DiskCounter([str(tmp_path)], DiskLimits(files=ENTRIES_PER_STEP), long_s=0)
    assert counter.advance(float("inf"))
    assert counter.is_partial
    assert 2 * ENTRIES_PER_STEP < counter.usage.files <= 3 * ENTRIES_PER_STEP
