"""secrets.json is its owner's alone, is replaced whole, has one writer at a time, and is never quoted."""

import json
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from choir_common.errors import ChoirError, Conflict, Forbidden, InvalidRequest, NotFound
from choir_common.secret_file import edit_secret_file, read_secret_file


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def put(path: Path, name: str, value: str) -> None:
    with edit_secret_file(path) as values:
        values[name] = value


def put_many(path: Path, who: int, count: int) -> None:
    for number in range(count):
        put(path, f"{who}-{number}", "v")


def test_what_was_set_is_read_and_only_the_owner_may_open_it(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    put(path, "key", "grüße\n")
    assert read_secret_file(path) == {"key": "grüße\n"}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_that_others_may_open_is_refused_for_reading_and_writing(
    tmp_path: Path, mode: int
) -> None:
    path = write(tmp_path / "secrets.json", '{"key": "hush-hush"}', mode)
    with pytest.raises(Forbidden, match="chmod 600"):
        read_secret_file(path)
    with pytest.raises(Forbidden):
        put(path, "other", "v")
    assert json.loads(path.read_text()) == {"key": "hush-hush"}


def test_a_link_or_a_pipe_in_its_place_is_refused(tmp_path: Path) -> None:
    real = write(tmp_path / "real.json", '{"key": "v"}')
    path = tmp_path / "secrets.json"
    path.symlink_to(real)
    with pytest.raises(ChoirError):
        read_secret_file(path)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(Forbidden):
        read_secret_file(path)


@pytest.mark.parametrize(
    "text",
    ['{"key": "hush-hush"', '["hush-hush"]', '{"key": {"a": "hush-hush"}}', '{"hush": ""}', "\xff"],
)
def test_a_broken_file_is_named_never_quoted_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "secrets.json", text)
    with pytest.raises(InvalidRequest) as caught:
        put(path, "other", "v")
    assert str(path) in caught.value.message and "hush-hush" not in caught.value.message
    assert path.read_text() == text
    assert sorted(p.name for p in tmp_path.iterdir()) == [".secrets.lock", "secrets.json"]


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="secret set"):
        read_secret_file(tmp_path / "secrets.json")


def test_a_change_that_fails_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    put(path, "key", "v")
    with pytest.raises(RuntimeError), edit_secret_file(path) as values:
        values.clear()
        raise RuntimeError
    assert read_secret_file(path) == {"key": "v"}


def test_no_change_of_several_writers_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=put_many, args=(path, who, 20)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert len(read_secret_file(path)) == 60


def test_a_writer_that_never_ends_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with edit_secret_file(path):
            held.set()
            let_go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        with pytest.raises(Conflict):
            put(path, "key", "v")
    finally:
        let_go.set()
        thread.join()
