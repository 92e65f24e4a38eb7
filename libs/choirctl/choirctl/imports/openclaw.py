"""OpenClaw's state directory `~/.openclaw`: workspace, sessions, cron jobs and the names of channels.

Sessions are in a database of each agent since version 2026.8.1, and in files of JSON lines before.

`openclaw.json` is JSON5 with tokens in it; only the names of channels are looked for.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from io import BytesIO
from itertools import groupby
from pathlib import PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choirctl.imports.cron_jobs import read_jobs
from choirctl.imports.database import has_tables, open_copy
from choirctl.imports.fields import object_of, plain_text, text_of
from choirctl.imports.items import Channel, Conversation, Item, Message, Omission, Role
from choirctl.imports.json_stream import JsonRecord, line_records
from choirctl.imports.source_files import SourceFiles, read_text
from choirctl.imports.times import parse_time
from choirctl.imports.workspace_texts import read_texts

_SESSION = re.compile(r"(^|.*/)sessions/[^/]+\.jsonl$")
_DATABASE = re.compile(r"(^|.*/)agent/openclaw-agent\.sqlite$")
"""The sessions of one agent, since version 2026.8.1; files of older versions stay beside it."""
_INDEX = re.compile(r"(^|.*/)memory/[^/]+\.sqlite$")
_EVENTS = """
SELECT session_id, event_json FROM transcript_events
WHERE typeof(session_id) = 'text' AND typeof(event_json) = 'text' ORDER BY session_id, seq
"""
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


def read(files: SourceFiles) -> Iterator[Item]:
    """Yield what a state directory contains."""
    names = files.names()
    root = _root(names)
    workspaces = {
        str(PurePosixPath(name).parent)
        for name in names
        if re.search(r"(^|/)workspace[^/]*/(SOUL|AGENTS|USER|MEMORY)\.md$", name)
    }
    databases = [name for name in names if _DATABASE.match(name)]
    if not workspaces and not databases and not any(_SESSION.match(name) for name in names):
        yield Omission(f"{root}workspace", _("there is no workspace and no session"))
    for folder in sorted(workspaces):
        yield from read_texts(files, folder)
    session_ids: set[str] = set()
    for name in databases:
        yield from _database(files, name, session_ids)
    for name in names:
        if _SESSION.match(name):
            yield from _session(files, name, session_ids)
        elif _INDEX.match(name):
            yield Omission(
                name, _("it is an index of the Markdown files of memory, which are read")
            )
    if f"{root}cron/jobs.json" in names:
        yield from read_jobs(files, f"{root}cron/jobs.json")
    if f"{root}openclaw.json" in names:
        yield from _channels(files, f"{root}openclaw.json")


def _root(names: list[str]) -> str:
    """Return the folder of the state directory in an archive, with `/`; empty: the top."""
    for name in names:
        if name == "openclaw.json" or name.endswith("/openclaw.json"):
            return name.removesuffix("openclaw.json")
    return ""


def _database(files: SourceFiles, name: str, session_ids: set[str]) -> Iterator[Item]:
    """Yield the sessions of an agent's database, and add their ids to `session_ids`."""
    try:
        with open_copy(files, name) as database:
            if not has_tables(database, "transcript_events"):
                yield Omission(name, _("it has no table of transcripts"))
                return
            rows = database.execute(_EVENTS)
            for session_id, group in groupby(rows, key=lambda row: str(row[0])):
                session_ids.add(session_id)
                place = _("{name}, session {session_id}").format(name=name, session_id=session_id)
                records = (record for _, text in group for record in _records(text, place))
                yield from _conversation(session_id, place, records)
            yield from _compressed(database, name)
    except sqlite3.Error as error:
        yield Omission(name, _("it cannot be read to its end ({error})").format(error=error))


def _records(text: str, name: str) -> Iterator[JsonRecord | Omission]:
    return line_records(BytesIO(text.encode(errors="replace")), name)


def _compressed(database: sqlite3.Connection, name: str) -> Iterator[Item]:
    """Name the events that are stored in another form; nothing decodes it here."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(transcript_events)")]
    if "event_zstd" not in columns:
        return
    query = "SELECT count(*) FROM transcript_events WHERE event_zstd IS NOT NULL"
    (count,) = database.execute(query).fetchone()
    if count:
        yield Omission(
            name, _("{count} events are compressed (zstd), which is not read").format(count=count)
        )


def _session(files: SourceFiles, name: str, session_ids: set[str]) -> Iterator[Item]:
    with files.open(name) as source:
        items = list(_conversation(PurePosixPath(name).stem, name, line_records(source, name)))
    # a database that was made of the file has the same session, and what came later
    yield from (
        it
        for it in items
        if not (isinstance(it, Conversation) and it.conversation_id in session_ids)
    )


def _conversation(
    session_id: str, name: str, records: Iterator[JsonRecord | Omission]
) -> Iterator[Item]:
    started_at = None
    messages: list[Message] = []
    for record in records:
        if isinstance(record, Omission):
            yield record
            continue
        value = record.value
        if text_of(value, "type") == "session":
            session_id = text_of(value, "id") or session_id
            started_at = parse_time(value.get("timestamp"))
        message = object_of(value, "message")
        role = ROLES.get(text_of(message, "role"))
        if text_of(value, "type") != "message" or role is None:
            continue
        if text := plain_text(message.get("content")):
            at = parse_time(value.get("timestamp")) or parse_time(message.get("timestamp"))
            messages.append(Message(role, text, at))
    if messages:
        yield Conversation(session_id, "", started_at, tuple(messages))
    else:
        yield Omission(name, _("it has no messages with text"))


def _channels(files: SourceFiles, name: str) -> Iterator[Item]:
    try:
        document = json.loads(read_text(files, name))
        channels = object_of(document, "channels") if isinstance(document, dict) else {}
    except (ValueError, RecursionError, InvalidRequest):
        yield Omission(name, _("it is no plain JSON, so its channels are not listed"))
        return
    yield from (Channel(channel) for channel in channels if channel != "defaults")
