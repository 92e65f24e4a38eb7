"""OpenClaw's state directory `~/.openclaw`: workspace, sessions, cron jobs and the names of channels.

`openclaw.json` is JSON5 with tokens in it; only the names of channels are looked for.
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from choir_common.errors import InvalidRequest
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
    """Yield what a state directory contains."""
    names = files.names()
    root = _root(names)
    workspaces = {
        str(PurePosixPath(name).parent)
        for name in names
        if re.search(r"(^|/)workspace[^/]*/(SOUL|AGENTS|USER|MEMORY)\.md$", name)
    }
    if not workspaces and not any(_SESSION.match(name) for name in names):
        yield Omission(f"{root}workspace", "there is no workspace and no session")
    for folder in sorted(workspaces):
        yield from read_texts(files, folder)
    for name in names:
        if _SESSION.match(name):
            yield from _session(files, name)
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


def _session(files: SourceFiles, name: str) -> Iterator[Item]:
    session_id, started_at = PurePosixPath(name).stem, None
    messages: list[Message] = []
    with files.open(name) as source:
        for record in line_records(source, name):
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
        yield Omission(name, "it has no messages with text")


def _channels(files: SourceFiles, name: str) -> Iterator[Item]:
    try:
        document = json.loads(read_text(files, name))
        channels = object_of(document, "channels") if isinstance(document, dict) else {}
    except (ValueError, RecursionError, InvalidRequest):
        yield Omission(name, "it is no plain JSON, so its channels are not listed")
        return
    yield from (Channel(channel) for channel in channels if channel != "defaults")
