"""nanobot's directory `~/.nanobot`: workspace, sessions, cron jobs and the names of channels."""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choirctl.imports.cron_jobs import read_jobs
from choirctl.imports.fields import object_of, plain_text, text_of
from choirctl.imports.items import Channel, Conversation, Item, Message, Omission, Role
from choirctl.imports.json_stream import line_records
from choirctl.imports.source_files import SourceFiles, read_text
from choirctl.imports.times import parse_time
from choirctl.imports.workspace_texts import read_texts

_SESSION = re.compile(r"(^|.*/)sessions/[^/]+\.jsonl$")
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


def read(files: SourceFiles) -> Iterator[Item]:
    """Yield what the directory contains."""
    names = files.names()
    workspaces = {
        str(PurePosixPath(name).parent)
        for name in names
        if re.search(r"(^|/)workspace/(SOUL|AGENTS|USER)\.md$", name)
    } | {name.split("/memory/")[0] for name in names if name.endswith("workspace/memory/MEMORY.md")}
    sessions = [name for name in names if _SESSION.match(name)]
    if not workspaces and not sessions:
        yield Omission("workspace", _("there is no workspace and no session"))
    for folder in sorted(workspaces):
        yield from read_texts(files, folder)
    for name in sessions:
        yield from _session(files, name)
    for name in names:
        if re.search(r"(^|/)cron/jobs\.json$", name):
            yield from read_jobs(files, name)
    for name in names:
        if name.rpartition("/")[2] == "config.json" and name.count("/") <= 1:
            yield from _channels(files, name)


def _session(files: SourceFiles, name: str) -> Iterator[Item]:
    session_id, started_at = PurePosixPath(name).stem, None
    messages: list[Message] = []
    with files.open(name) as source:
        for record in line_records(source, name):
            if isinstance(record, Omission):
                yield record
                continue
            value = record.value
            if text_of(value, "_type") == "metadata":
                session_id = text_of(value, "key") or session_id
                started_at = parse_time(value.get("created_at"))
            elif (role := ROLES.get(text_of(value, "role"))) and (
                text := plain_text(value.get("content"))
            ):
                messages.append(Message(role, text, parse_time(value.get("timestamp"))))
    if messages:
        yield Conversation(session_id, session_id, started_at, tuple(messages))
    else:
        yield Omission(name, _("it has no messages with text"))


def _channels(files: SourceFiles, name: str) -> Iterator[Item]:
    try:
        document = json.loads(read_text(files, name))
    except (ValueError, RecursionError, InvalidRequest):
        yield Omission(name, _("it is no JSON, so its channels are not listed"))
        return
    channels = object_of(document, "channels") if isinstance(document, dict) else {}
    for channel in channels:
        if object_of(channels, channel).get("enabled") is True:
            yield Channel(channel)
