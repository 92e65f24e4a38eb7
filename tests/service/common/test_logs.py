"""Logs on disk: nothing is lost or doubled by rotation, archiving, a flood or a crash."""

import asyncio
import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from choir_common.logs import reader as reading
from choir_common.logs.file import LogFile
from choir_common.logs.pump import MAX_LINE_BYTES, LineWriter, PipeReader, TokenBucket, format_line
from choir_common.logs.retention import LogLimits, LogLimitsReader
from choir_common.redactor import MASK, Redactor
from choir_common.wire.config import Config
from tests.support.preloaded_choirctl import run_choirctl

CANARY = "sk-canary-0123456789"


def everything(logs: Path, source: str) -> list[str]:
    """Return all messages of a source, the archived ones first."""
    kept = sorted((logs / "archive" / source).glob("*.log.gz"))
    texts = [gzip.decompress(path.read_bytes()).decode() for path in kept]
    current = logs / f"{source}.log"
    texts.append(current.read_text() if current.exists() else "")
    return [json.loads(line)["message"] for text in texts for line in text.splitlines()]


def test_a_line_says_when_how_grave_who_and_what() -> None:
    line = json.loads(format_line(b"plain words\n", "main", "ses_1"))
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "source": "main",
        "session": "ses_1",
        "message": "plain words",
    }


def test_nobody_can_write_under_anothers_name() -> None:
    forged = {"source": "choird", "session": "ses_other", "level": "error", "message": "m", "n": 1}
    line = json.loads(format_line(json.dumps(forged).encode(), "main", "ses_1"))
    assert (line["source"], line["session"]) == ("main", "ses_1")
    assert (line["level"], line["message"], line["n"]) == ("error", "m", 1)


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "main")
    writer = LineWriter(file, "main", Redactor())
    for _ in range(4):
        writer.feed(b"x" * MAX_LINE_BYTES)
    writer.finish()
    assert all(len(message) <= MAX_LINE_BYTES + 10 for message in everything(tmp_path, "main"))


def test_a_log_that_is_long_goes_to_the_archive_while_it_is_written(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "choird", LogLimits(100))
    writer = LineWriter(file, "choird", Redactor())
    for number in range(1_050):
        writer.feed(f"line {number}\n".encode())
    file.close()
    assert len(list((tmp_path / "archive" / "choird").glob("*.log.gz"))) == 10
    assert everything(tmp_path, "choird") == [f"line {number}" for number in range(1_050)]
    assert (tmp_path / "choird.log").stat().st_mode & 0o777 == 0o600
    for kept in (tmp_path / "archive" / "choird").iterdir():
        assert kept.stat().st_mode & 0o777 == 0o600


def test_what_is_put_away_faster_than_it_is_compressed_stays_whole(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "choird", LogLimits(1))
    said = [f"{number} " + os.urandom(3_000).hex() for number in range(300)]
    for words in said:
        file.write(format_line(words.encode(), "choird", None))
    file.close()
    assert everything(tmp_path, "choird") == said


def archived(logs: Path, source: str, days_old: dict[str, int], size: int = 1) -> Path:
    """Make archived logs, each so many days old; their names, which are times, are before any of today."""
    archive = logs / "archive" / source
    archive.mkdir(parents=True)
    for name, days in days_old.items():
        path = archive / f"2000{name}.log.gz"
        path.write_bytes(b"x" * size)
        then = time.time() - days * 86_400
        os.utime(path, (then, then))
    return archive


def left_in(archive: Path) -> list[str]:
    return sorted(path.name.partition(".")[0].removeprefix("2000") for path in archive.iterdir())


def test_what_was_archived_long_ago_is_deleted_also_of_who_writes_no_more(tmp_path: Path) -> None:
    gone = archived(tmp_path, "gone", {"a": 40, "b": 20, "c": 5})
    never_again = archived(tmp_path, "never_again", {"a": 400, "b": 300})
    file = LogFile(tmp_path, "choird", LogLimits(log_archive_keep_days=30))
    file.write(format_line(b"new", "choird", None))
    file.close()
    assert left_in(gone) == ["b", "c"]
    assert left_in(never_again) == ["b"], "the newest of a source stays"


def test_of_too_much_the_oldest_is_deleted_while_it_is_written(tmp_path: Path) -> None:
    archive = archived(tmp_path, "choird", {"a": 3, "b": 2, "c": 1}, size=400_000)
    file = LogFile(tmp_path, "choird", LogLimits(2, log_archive_keep_mb=1))
    file.write(format_line(b"one", "choird", None) + format_line(b"two", "choird", None))
    file.close()
    names = left_in(archive)
    assert names[1:] == ["b", "c"] and len(names) == 3, "the third is the one just put away"


def test_the_limits_are_those_of_config_json_as_it_stands_now(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    limits = LogLimitsReader(path)
    assert limits.current() == LogLimits()
    given = {"log_archive_threshold_lines": 1_000, "log_archive_keep_mb": 7, "agents": {}}
    path.write_text(json.dumps(given))
    assert limits.current() == LogLimits(1_000, log_archive_keep_mb=7)
    path.write_text('{"log_archive_keep_mb": "many", "log_archive_keep_days": 0')
    os.utime(path, (1, 1))
    assert limits.current() == LogLimits(1_000, log_archive_keep_mb=7), (
        "half a file changes nothing"
    )
    path.write_text('{"log_archive_keep_mb": "many", "log_archive_keep_days": 0}')
    os.utime(path, (2, 2))
    assert limits.current() == LogLimits(), "what does not fit is the default"
    assert Config.model_fields.keys() >= given.keys()
    for name in ("threshold_lines", "keep_days", "keep_mb"):
        field = f"log_archive_{name}"
        assert Config.model_fields[field].default == getattr(LogLimits(), field)


def test_the_lines_of_an_earlier_process_count(tmp_path: Path) -> None:
    for part in range(4):
        file = LogFile(tmp_path, "choird", LogLimits(100))
        for number in range(30):
            file.write(format_line(f"{part} {number}".encode(), "choird", None))
        file.close()
    assert len(list((tmp_path / "archive" / "choird").glob("*.log.gz"))) == 1
    assert len(everything(tmp_path, "choird")) == 120


def test_what_a_crash_left_uncompressed_is_compressed_later(tmp_path: Path) -> None:
    archive = tmp_path / "archive" / "main"
    archive.mkdir(parents=True)
    (archive / "20260101T000000.000000Z.log").write_bytes(format_line(b"old", "main", None))
    (archive / ".20260101T000000.000000Z.log.gz.partial").write_bytes(b"half")
    file = LogFile(tmp_path, "main")
    file.write(format_line(b"new", "main", None))
    file.close()
    assert everything(tmp_path, "main") == ["old", "new"]
    assert [path.name for path in archive.iterdir()] == ["20260101T000000.000000Z.log.gz"]


async def test_what_a_child_writes_is_cleaned_and_stands_in_the_log(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.add_secrets([CANARY])
    file = LogFile(tmp_path, "main")
    pump, write_end = await PipeReader.open(LineWriter(file, "main", redactor, session="ses_1"))
    code = f"import sys; print('key {CANARY}'); print({{'a': 1}}, end='', file=sys.stderr)"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=write_end, stderr=write_end
    )
    os.close(write_end)
    await child.wait()
    await pump.settled(60)
    file.close()
    assert sorted(everything(tmp_path, "main")) == [f"key {MASK}", "{'a': 1}"]


def test_a_flood_is_read_no_faster_than_allowed() -> None:
    allowance = TokenBucket(rate=1_000, burst=2_000)
    assert allowance.spend(2_000) == 0
    assert allowance.spend(500) == pytest.approx(0.5, abs=0.1)


def test_following_a_log_sees_every_line_once_over_rotations(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "choird", LogLimits(50))
    file.write(format_line(b"before", "choird", None))
    expected = ["before", *(f"line {number}" for number in range(400))]

    def write() -> None:
        for number in range(400):
            file.write(format_line(f"line {number}".encode(), "choird", None))
            time.sleep(0.002 if number % 50 else 0.25)  # a follower sees each file at least once

    writing = threading.Thread(target=write)
    writing.start()
    seen: list[str] = []
    with contextlib.closing(reading.follow_lines(tmp_path / "choird.log")) as lines:
        while len(seen) < len(expected):
            seen.append(json.loads(next(lines))["message"])
    writing.join()
    file.close()
    assert seen == expected


def test_a_follower_that_looks_away_for_several_rotations_misses_nothing(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "choird", LogLimits(3))
    file.write(format_line(b"before 0", "choird", None))
    file.archive()
    file.write(format_line(b"line 0", "choird", None))
    with contextlib.closing(reading.follow_lines(tmp_path / "choird.log")) as lines:
        seen = [json.loads(next(lines))["message"]]
        for number in range(1, 11):
            file.write(format_line(f"line {number}".encode(), "choird", None))
        file.close()  # by now all that was put away is compressed
        seen += [json.loads(next(lines))["message"] for _ in range(10)]
        for number in range(11, 20):
            file.write(format_line(f"line {number}".encode(), "choird", None))
        seen += [json.loads(next(lines))["message"] for _ in range(9)]
    file.close()
    assert seen == [f"line {number}" for number in range(20)]


def test_choirctl_follows_a_log_through_its_archiving(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs", "main", LogLimits(3))
    file.write(format_line(b"m0", "main", None))
    following = subprocess.Popen(
        [Path(sys.executable).parent / "choirctl", "logs", "main", "--json"],
        env={**os.environ, "CHOIR_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    try:
        seen = [json.loads(following.stdout.readline())["message"]]
        for number in range(1, 8):
            file.write(format_line(f"m{number}".encode(), "main", None))
            seen.append(json.loads(following.stdout.readline())["message"])
        file.archive()  # as when a session ends; the next one begins a new file
        file.write(format_line(b"another session", "main", None))
        seen.append(json.loads(following.stdout.readline())["message"])
    finally:
        following.send_signal(signal.SIGINT)
        following.stdout.close()
        assert following.wait(30) == 0
        file.close()
    assert seen == [*(f"m{number}" for number in range(8)), "another session"]
    assert len(list((tmp_path / "logs" / "archive" / "main").glob("*.gz"))) == 3


def test_choirctl_prints_a_log_and_refuses_an_unknown_one(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs", "choird")
    for number in range(5):
        file.write(format_line(b'{"message": "m%d", "n": 1}' % number, "choird", None))
    file.close()

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        return run_choirctl("logs", *words, home=tmp_path)

    shown = ask("choird", "--no-follow", "--lines", "2")
    assert [line.split(" ", 3)[3] for line in shown.stdout.splitlines()] == [
        "   m3 n=1",
        "   m4 n=1",
    ]
    raw = ask("choird", "--no-follow", "--json").stdout.splitlines()
    assert [json.loads(line)["message"] for line in raw] == [f"m{n}" for n in range(5)]
    refused = ask("nobody", "--no-follow")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "'nobody'" in refused.stderr
    assert "choird" in refused.stderr
    assert ask("../config", "--no-follow").returncode == 3
