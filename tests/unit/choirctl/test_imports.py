"""Readers of exports: odd files, dates and tricks. Round trips: tests/service/choirctl/test_import.py."""

import io
import json
import os
import stat
import tracemalloc
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest, NotFound
from choir_memory.documents.model import TRUST as MEMORY_TRUST
from choirctl.imports import chatgpt, claude, cron_jobs, hermes, nanobot, openclaw
from choirctl.imports.items import Conversation, Item, Memory, Message, Omission, ScheduleItem
from choirctl.imports.json_stream import JsonRecord, array_records
from choirctl.imports.memory_records import (
    ORIGIN,
    PART_CHARS,
    TRUST,
    conversation_records,
    split_text,
)
from choirctl.imports.report import ImportReport
from choirctl.imports.source_files import open_source
from choirctl.imports.times import parse_time
from tests.support import foreign_exports

READERS = (openclaw, hermes, chatgpt, claude, nanobot)


def read_chatgpt(folder: Path, text: str, name: str = "conversations.json") -> list[Item]:
    (folder / name).write_text(text)
    with open_source(folder) as files:
        return list(chatgpt.read(files))


def test_a_replaced_branch_is_not_read(tmp_path: Path) -> None:
    text = json.dumps([foreign_exports.chatgpt_conversation()])
    (conversation,) = read_chatgpt(tmp_path, text)
    assert isinstance(conversation, Conversation)
    assert [it.text for it in conversation.messages] == [
        "Which tea grows in Uji?",
        "Gyokuro and matcha.",
    ]
    assert conversation.messages[0].at == datetime.fromtimestamp(1_700_000_000.5, UTC)


def test_sessions_of_openclaws_database_are_read_once_and_in_their_order(tmp_path: Path) -> None:
    foreign_exports.openclaw_database(foreign_exports.openclaw(tmp_path))
    with open_source(tmp_path) as files:
        items = list(openclaw.read(files))
    by_id = {it.conversation_id: it for it in items if isinstance(it, Conversation)}
    texts = {key: [line.text for line in it.messages] for key, it in by_id.items()}
    assert texts == {
        "a1": ["Where is the anchor?", "It was moved to the stern."],
        "b2": ["Where is the flare gun?", "Under the bunk."],
    }
    assert sum(isinstance(it, Conversation) for it in items) == 2, "the file of a1 is older"
    reasons = " ".join(it.reason for it in items if isinstance(it, Omission))
    assert "1 events are compressed" in reasons and "is an index of the Markdown" in reasons
    assert "is not valid JSON" in reasons


def test_without_a_current_node_the_newest_branch_is_read(tmp_path: Path) -> None:
    text = json.dumps([foreign_exports.chatgpt_conversation(current_node="lost")])
    (conversation,) = read_chatgpt(tmp_path, text)
    assert isinstance(conversation, Conversation)
    assert conversation.messages[-1].text == "Gyokuro and matcha."


def peak_bytes(folder: Path, conversations: int) -> int:
    """Return the most memory that reading an export of this size takes."""
    folder.mkdir()
    with (folder / "conversations.json").open("w") as file:
        for number in range(conversations):
            text = json.dumps(foreign_exports.chatgpt_conversation(f"c{number}"))
            file.write("[" if number == 0 else ",\n")
            file.write(text.replace("Gyokuro and matcha.", f"Tea {number}. " * 10_000))
        file.write("]")
    report = ImportReport("chatgpt")
    tracemalloc.start()
    try:
        with open_source(folder) as files:
            for item in chatgpt.read(files):
                report.add(item, datetime.now(UTC))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert report.counts["conversations"] == conversations


def test_an_export_is_read_in_bounded_memory(tmp_path: Path) -> None:
    small, large = peak_bytes(tmp_path / "small", 20), peak_bytes(tmp_path / "large", 100)
    assert (tmp_path / "large" / "conversations.json").stat().st_size > 7_500_000
    assert large - small < 2_000_000, "five times the size, and nothing of it stays"


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    circle = {"a": {"parent": "b"}, "b": {"parent": "a"}}
    text = json.dumps([foreign_exports.chatgpt_conversation(mapping=circle, current_node="a")])
    assert [it.kind for it in read_chatgpt(tmp_path, text)] == ["omission"]


def test_a_broken_record_is_named_and_loses_no_other(tmp_path: Path) -> None:
    good = [json.dumps(foreign_exports.chatgpt_conversation(key)) for key in ("one", "two")]
    items = read_chatgpt(tmp_path, f'[{good[0]}, {{"title": nonsense}}, {good[1]}, {{"title": "cut')
    assert [it.conversation_id for it in items if isinstance(it, Conversation)] == ["one", "two"]
    omissions = [it for it in items if isinstance(it, Omission)]
    assert omissions[0] == Omission("conversations.json, record 2", "it is not valid JSON")
    assert omissions[1].place == "conversations.json, record 4"


def test_files_of_a_split_export_are_all_read(tmp_path: Path) -> None:
    for number in range(2):
        text = json.dumps([foreign_exports.chatgpt_conversation(f"c{number}")])
        items = read_chatgpt(tmp_path, text, f"conversations-00{number}.json")
    assert len(items) == 2


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_records_are_found_however_the_file_is_divided(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("choirctl.imports.json_stream.CHUNK_BYTES", chunk)
    values = [{"a": 'quote " and } and \\', "b": [{"c": "é🙂"}]}, {}, {"d": "]"}]
    text = json.dumps(values, ensure_ascii=False).encode()
    records = list(array_records(io.BytesIO(text), "x"))
    assert [it.value for it in records if isinstance(it, JsonRecord)] == values


def test_a_record_that_is_too_large_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("choirctl.imports.json_stream.CHUNK_BYTES", 10)
    monkeypatch.setattr("choirctl.imports.json_stream.MAX_RECORD_CHARS", 50)
    text = json.dumps([{"a": "x" * 200}, {"b": 1}]).encode()
    first, second = array_records(io.BytesIO(text), "x")
    assert isinstance(first, Omission) and isinstance(second, JsonRecord)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (1_700_000_000, "2023-11-14T22:13:20+00:00"),
        (1_700_000_000_000, "2023-11-14T22:13:20+00:00"),
        ("2025-01-01T12:00:00+02:00", "2025-01-01T10:00:00+00:00"),
        ("2025-01-01T12:00:00", "2025-01-01T12:00:00+00:00"),
        *((wrong, None) for wrong in ("soon", "", None, True, [], 1e300, 0, "2999-01-01")),
        (float("nan"), None),
    ],
)
def test_dates(value: object, time: str | None) -> None:
    parsed = parse_time(value)  # type: ignore[arg-type]
    assert (parsed.isoformat() if parsed else None) == time


def test_messages_without_a_date_have_the_one_before_or_are_left_out() -> None:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    messages = (
        Message("user", "lost", None),
        Message("user", "a", at),
        Message("assistant", "b", None),
    )
    records, omissions = conversation_records(Conversation("c", "", None, messages), "chatgpt")
    assert [getattr(it, "text", None) for it in records] == [None, "a", "b"]
    assert omissions[0].reason == "1 message has no date"
    assert records == conversation_records(Conversation("c", "", None, messages), "chatgpt")[0]


def test_records_are_trusted_like_web_pages_and_keys_are_masked() -> None:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    message = Message("user", f"key {foreign_exports.KEY}, \ud800 and \x00", at)
    records, _ = conversation_records(Conversation("c", "", at, (message,)), "claude")
    unit = records[1]
    assert unit.type == "session" and (unit.origin, unit.trust) == (ORIGIN, TRUST)
    assert MEMORY_TRUST["web"] == TRUST and ORIGIN == "web"
    assert unit.text == "key [redacted], ? and"
    assert unit.speaker == "user (claude)"


def test_a_long_text_is_split_without_a_loss() -> None:
    text = "word " * 3_000
    parts = split_text(text)
    assert all(len(part) <= PART_CHARS for part in parts)
    assert " ".join(parts).split() == text.split()


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil", "a/../../b", "..\\b"])
def test_an_archive_with_path_tricks_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "{}")
    with pytest.raises(InvalidRequest, match="nothing was read"), open_source(file):
        pass


def test_links_and_bombs_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("conversations.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for entry, content in ((link, b"/etc/passwd"), ("conversations.json", b"0" * 20_000_000)):
        file = tmp_path / "x.zip"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(entry, content)
        with pytest.raises(InvalidRequest, match="nothing was read"), open_source(file):
            pass
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "conversations.json").write_text("[]")
    (folder / "conversations.json").symlink_to(tmp_path / "outside" / "conversations.json")
    (folder / "sub").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    with open_source(folder) as files:
        assert files.names() == []


def test_what_is_no_export_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound), open_source(tmp_path / "nothing"):
        pass
    (tmp_path / "x.zip").write_text("no archive")
    with pytest.raises(InvalidRequest), open_source(tmp_path / "x.zip"):
        pass


@pytest.mark.parametrize("reader", READERS)
def test_an_empty_folder_says_what_is_missing(reader: object, tmp_path: Path) -> None:
    with open_source(tmp_path) as files:
        items = list(reader.read(files))  # type: ignore[attr-defined]
    assert [it.kind for it in items] == ["omission"]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"kind": "every", "everyMs": 90_000}, ("every", "90s", None)),
        ({"kind": "interval", "minutes": 5}, ("every", "300s", None)),
        (
            {"kind": "cron", "expr": "0 7 * * *", "tz": "Asia/Tokyo"},
            ("cron", "0 7 * * *", "Asia/Tokyo"),
        ),
        ({"kind": "at", "at": "2030-01-01T10:00:00+02:00"}, ("at", "2030-01-01 08:00", "UTC")),
        ({"kind": "once", "run_at": "2030-01-01T08:00:00Z"}, ("at", "2030-01-01 08:00", "UTC")),
        ({"kind": "cron", "expr": "* * * * * *"}, None),
        ({"kind": "at", "atMs": 1e300}, None),
        ({}, None),
    ],
)
def test_times_of_jobs(
    tmp_path: Path, schedule: object, expected: tuple[str, str, str | None] | None
) -> None:
    job = {"id": "1", "schedule": schedule, "payload": {"message": "Do it."}}
    foreign_exports.write(tmp_path, "jobs.json", {"jobs": [job]})
    with open_source(tmp_path) as files:
        (item,) = cron_jobs.read_jobs(files, "jobs.json")
    if expected is None:
        assert isinstance(item, Omission)
    else:
        assert isinstance(item, ScheduleItem)
        assert (item.timing, item.value, item.zone) == expected


def test_a_database_that_is_none_is_reported(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database at all" * 100)
    with open_source(tmp_path) as files:
        (item,) = hermes.read(files)
    assert isinstance(item, Omission) and "cannot be read" in item.reason


def test_a_claude_export_has_memories_and_projects(tmp_path: Path) -> None:
    with open_source(foreign_exports.claude(tmp_path / "x.zip")) as files:
        items = list(claude.read(files))
    names = [it.name for it in items if isinstance(it, Memory)]
    assert names == ["memories", "projects/Trip/plan.md"]
