"""The data export of claude.ai: a ZIP file with `conversations.json`, `projects.json` and `memories.json`.

Newer exports have a file for each project and memory, in the folders `projects` and `memories`.
"""

import re
from collections.abc import Iterator

from choir_common.i18n import _
from choirctl.imports.fields import JsonDict, object_of, objects_of, plain_text, text_of
from choirctl.imports.items import Conversation, Item, Memory, Message, Omission, Role
from choirctl.imports.json_stream import JsonRecord, array_records
from choirctl.imports.source_files import SourceFiles
from choirctl.imports.times import parse_time

_CONVERSATIONS = re.compile(r"(^|/)conversations(-\d+)?\.json$")
_PROJECTS = re.compile(r"(^|/)projects(\.json|/[^/]+\.json)$")
_MEMORIES = re.compile(r"(^|/)memories(\.json|/[^/]+\.json)$")
ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def read(files: SourceFiles) -> Iterator[Item]:
    """Yield the conversations, memories and project texts of an export."""
    names = files.names()
    if not any(_CONVERSATIONS.search(name) for name in names):
        yield Omission("conversations.json", _("the export does not contain it"))
    for name in names:
        for pattern, convert in (
            (_CONVERSATIONS, _conversation),
            (_PROJECTS, _project),
            (_MEMORIES, _memories),
        ):
            if pattern.search(name):
                with files.open(name) as source:
                    for record in array_records(source, name):
                        yield from (record,) if isinstance(record, Omission) else convert(record)


def _conversation(record: JsonRecord) -> Iterator[Item]:
    value = record.value
    conversation_id, title = text_of(value, "uuid"), text_of(value, "name")
    if not conversation_id:
        yield Omission(record.place, _("it has no id"))
        return
    messages = [
        Message(role, text, parse_time(entry.get("created_at")))
        for entry in objects_of(value, "chat_messages")
        if (role := ROLES.get(text_of(entry, "sender"))) and (text := _text(entry))
    ]
    if messages:
        started_at = parse_time(value.get("created_at"))
        yield Conversation(conversation_id, title, started_at, tuple(messages))
    else:
        yield Omission(f"{record.place} ({title[:60]})", _("it has no messages with text"))


def _text(entry: JsonDict) -> str:
    """Return what was said, and the texts of attached documents; thoughts and tools are left out."""
    texts = [plain_text(entry.get("content")) or text_of(entry, "text").strip()]
    for attachment in objects_of(entry, "attachments"):
        if content := text_of(attachment, "extracted_content").strip():
            texts.append(f"[{text_of(attachment, 'file_name') or 'attachment'}]\n{content}")
    return "\n\n".join(text for text in texts if text)


def _project(record: JsonRecord) -> Iterator[Item]:
    value = record.value
    name = text_of(value, "name") or text_of(value, "uuid")
    at = parse_time(value.get("created_at"))
    for field in ("description", "prompt_template"):
        if text := text_of(value, field).strip():
            yield Memory(f"projects/{name}/{field}", text, at)
    for document in objects_of(value, "docs"):
        if text := text_of(document, "content").strip():
            file = text_of(document, "filename") or "document"
            yield Memory(
                f"projects/{name}/{file}", text, parse_time(document.get("created_at")) or at
            )


def _memories(record: JsonRecord) -> Iterator[Item]:
    if text := text_of(record.value, "conversations_memory").strip():
        yield Memory("memories", text, None)
    project_memories = object_of(record.value, "project_memories")
    for project in project_memories:
        if text := text_of(project_memories, project).strip():
            yield Memory(f"memories/project {project}", text, None)
