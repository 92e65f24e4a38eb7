"""Hermes Agent's directory `~/.hermes`: persona, memories, the sessions in `state.db`, and cron jobs."""

import re
import sqlite3
from collections.abc import Iterator
from itertools import groupby

from choir_common.i18n import _
from choirctl.imports.cron_jobs import read_jobs
from choirctl.imports.database import has_tables, open_copy
from choirctl.imports.fields import plain_text
from choirctl.imports.items import Channel, Conversation, Item, Message, Omission, Role
from choirctl.imports.source_files import SourceFiles
from choirctl.imports.times import parse_time
from choirctl.imports.workspace_texts import read_texts

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_MESSAGES = """
SELECT s.id, CASE WHEN typeof(s.title) = 'text' THEN s.title ELSE '' END, s.started_at,
       m.role, m.content, m.timestamp
FROM sessions AS s JOIN messages AS m ON m.session_id = s.id
WHERE m.role IN ('user', 'assistant') AND typeof(m.content) = 'text' AND typeof(s.id) = 'text'
ORDER BY s.id, m.timestamp, m.id
"""
LOCAL_SOURCES = ("cli", "cron", "tool", "api_server", "webui")


def read(files: SourceFiles) -> Iterator[Item]:
    """Yield what the directory contains."""
    names = files.names()
    root = _root(names)
    yield from read_texts(files, root.rstrip("/"))
    if f"{root}state.db" in names:
        yield from _database(files, f"{root}state.db")
    else:
        yield Omission(f"{root}state.db", _("there is none, so there are no conversations"))
    if f"{root}cron/jobs.json" in names:
        yield from read_jobs(files, f"{root}cron/jobs.json")


def _root(names: list[str]) -> str:
    for name in names:
        if re.search(r"(^|/)(state\.db|SOUL\.md)$", name):
            return name.rpartition("/")[0] + "/" if "/" in name else ""
    return ""


def _database(files: SourceFiles, name: str) -> Iterator[Item]:
    try:
        with open_copy(files, name) as database:
            if not has_tables(database, "sessions", "messages"):
                yield Omission(name, _("it has no tables of sessions and messages"))
                return
            yield from _sessions(database)
            yield from _channels(database)
    except sqlite3.Error as error:
        yield Omission(name, _("it cannot be read to its end ({error})").format(error=error))


def _sessions(database: sqlite3.Connection) -> Iterator[Item]:
    rows = database.execute(_MESSAGES)
    for session_id, group in groupby(rows, key=lambda row: row[0]):
        messages: list[Message] = []
        title, started_at = "", None
        for _group, title, started_at, role, content, at in group:  # noqa: B007 the last ones are used
            if text := plain_text(content):
                messages.append(Message(ROLES[role], text, parse_time(at)))
        if messages:
            yield Conversation(session_id, title, parse_time(started_at), tuple(messages))


def _channels(database: sqlite3.Connection) -> Iterator[Item]:
    for (source,) in database.execute("SELECT DISTINCT source FROM sessions LIMIT 100"):
        if isinstance(source, str) and source not in LOCAL_SOURCES:
            yield Channel(source[:60])
