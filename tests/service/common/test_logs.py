"""Logs on disk (spec 22.2): nothing is lost or doubled by rotation, archiving, a flood or a crash."""

import asyncio
import contextlib
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from choir_common.logs import follow as reading
from choir_common.logs.file import LogFile
from choir_common.logs.line import LONGEST, shape
from choir_common.logs.pump import Allowance, LineWriter, Pump
from choir_common.redactor import MASK, Redactor

CANARY = "sk-canary-0123456789"


def never() -> None:
    return None


def everything(logs: Path, source: str) -> list[str]:
    """Return all messages of a source, the archived ones first."""
    kept = sorted((logs / "archive" / source).glob("*.log.gz"))
    texts = [gzip.decompress(path.read_bytes()).decode() for path in kept]
    current = logs / f"{source}.log"
    texts.append(current.read_text() if current.exists() else "")
    return [json.loads(line)["message"] for text in texts for line in text.splitlines()]


def test_a_line_says_when_how_grave_who_and_what() -> None:
    line = json.loads(shape(b"plain words\n", "main", "ses_1"))
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "source": "main",
        "session": "ses_1",
        "message": "plain words",
    }


def test_nobody_can_write_under_anothers_name() -> None:
    forged = {"source": "choird", "session": "ses_other", "level": "error", "message": "m", "n": 1}
    line = json.loads(shape(json.dumps(forged).encode(), "main", "ses_1"))
    assert (line["source"], line["session"]) == ("main", "ses_1")
    assert (line["level"], line["message"], line["n"]) == ("error", "m", 1)


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "main", never)
    writer = LineWriter(file, "main", str)
    for _ in range(4):
        writer.feed(b"x" * LONGEST)
    writer.finish()
    assert all(len(message) <= LONGEST + 10 for message in everything(tmp_path, "main"))


def test_a_log_that_is_long_goes_to_the_archive_while_it_is_written(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "choird", lambda: 100)
    writer = LineWriter(file, "choird", str)
    for number in range(1_050):
        writer.feed(f"line {number}\n".encode())
    file.close()
    assert len(list((tmp_path / "archive" / "choird").glob("*.log.gz"))) == 10
    assert everything(tmp_path, "choird") == [f"line {number}" for number in range(1_050)]
    assert (tmp_path / "choird.log").stat().st_mode & 0o777 == 0o600
    for kept in (tmp_path / "archive" / "choird").iterdir():
        assert kept.stat().st_mode & 0o777 == 0o600


def test_the_lines_of_an_earlier_process_count(tmp_path: Path) -> None:
    for part in range(4):
        file = LogFile(tmp_path, "choird", lambda: 100)
        for number in range(30):
            file.write(shape(f"{part} {number}".encode(), "choird", None))
        file.close()
    assert len(list((tmp_path / "archive" / "choird").glob("*.log.gz"))) == 1
    assert len(everything(tmp_path, "choird")) == 120


def test_what_a_crash_left_uncompressed_is_compressed_later(tmp_path: Path) -> None:
    archive = tmp_path / "archive" / "main"
    archive.mkdir(parents=True)
    (archive / "20260101T000000.000000Z.log").write_bytes(shape(b"old", "main", None))
    (archive / ".20260101T000000.000000Z.log.gz.partial").write_bytes(b"half")
    file = LogFile(tmp_path, "main", never)
    file.write(shape(b"new", "main", None))
    file.close()
    assert everything(tmp_path, "main") == ["old", "new"]
    assert [path.name for path in archive.iterdir()] == ["20260101T000000.000000Z.log.gz"]


async def test_what_a_child_writes_is_cleaned_and_stands_in_the_log(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.learn([CANARY])
    file = LogFile(tmp_path, "main", never)
    pump, write_end = await Pump.open(LineWriter(file, "main", redactor.clean, "ses_1"))
    code = f"import sys; print('key {CANARY}'); print({{'a': 1}}, end='', file=sys.stderr)"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=write_end, stderr=write_end
    )
    os.close(write_end)
    await child.wait()
    await pump.settled(5)
    file.close()
    assert sorted(everything(tmp_path, "main")) == [f"key {MASK}", "{'a': 1}"]


def test_a_flood_is_read_no_faster_than_allowed() -> None:
    allowance = Allowance(rate=1_000, burst=2_000)
    assert allowance.spend(2_000) == 0
    assert allowance.spend(500) == pytest.approx(0.5, abs=0.1)


def test_following_a_log_sees_every_line_once_over_rotations(tmp_path: Path) -> None:
    file = LogFile(tmp_path, "choird", lambda: 50)
    file.write(shape(b"before", "choird", None))
    expected = ["before", *(f"line {number}" for number in range(400))]

    def write() -> None:
        for number in range(400):
            file.write(shape(f"line {number}".encode(), "choird", None))
            time.sleep(0.002 if number % 50 else 0.25)  # a follower sees each file at least once

    writing = threading.Thread(target=write)
    writing.start()
    seen: list[str] = []
    with contextlib.closing(reading.follow(tmp_path / "choird.log")) as lines:
        while len(seen) < len(expected):
            seen.append(json.loads(next(lines))["message"])
    writing.join()
    file.close()
    assert seen == expected


def test_choirctl_prints_a_log_and_refuses_an_unknown_one(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "logs", "choird", never)
    for number in range(5):
        file.write(shape(b'{"message": "m%d", "n": 1}' % number, "choird", None))
    file.close()

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).parent / "choirctl", "logs", *words],
            env={**os.environ, "CHOIR_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=30,
        )

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
