"""The tools of a model with a small context window: fewer, and described in one or two sentences. Pure.

A built-in tool without a row here is not offered: proposals, collections. External tools and the tools of the
current skill are offered to every model. The arbiter validates calls against the full schema as always, so a
parameter that is not mentioned here still works.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from choir_agent.tools.manifest import LlmView, ToolManifest
from choir_common.wire.model import JsonObject

BUILT_IN = "choir."
JOB_TOOLS = frozenset(
    {"choir.core.spawn", "choir.core.list", "choir.core.cancel", "choir.core.inject"}
)
"""Offered only if the jobs have a model with a larger window: in a small one they only take room."""
MAX_DESCRIPTION = 160
MAX_PARAMETER_DESCRIPTION = 60


@dataclass(frozen=True, slots=True)
class ShortTool:
    """A tool's short description and the parameters that are mentioned."""

    description: str
    parameters: tuple[str, ...]


SHORT_TOOLS: Mapping[str, ShortTool] = {
    "choir.agent.ask": ShortTool(
        "Ask another agent, which knows nothing of this conversation, and wait for its answer.",
        ("agent", "question"),
    ),
    "choir.core.cancel": ShortTool("End a core job.", ("job_name",)),
    "choir.core.inject": ShortTool(
        "Give a core job further instructions.", ("job_name", "content")
    ),
    "choir.core.list": ShortTool("List the core jobs.", ()),
    "choir.core.report": ShortTool(
        "Report `progress` (body {phase, percent, focus}), or `need_info` (body {missing}): what only the "
        "user knows. Your result is your last message, not a report.",
        ("kind", "body"),
    ),
    "choir.core.spawn": ShortTool(
        "Give long work to a core job, which knows only task_spec: write it complete. You are told when "
        "it ends.",
        ("job_name", "task_spec", "harness"),
    ),
    "choir.email.check": ShortTool("List new mail.", ("since_date",)),
    "choir.email.receive": ShortTool(
        "Without `uid` list mail, with `uid` read that message.",
        ("uid", "from", "subject", "contains", "save_attachments"),
    ),
    "choir.email.send": ShortTool(
        "Send an email; to answer one, give its message_id as in_reply_to.",
        ("to", "subject", "text", "attachments", "in_reply_to"),
    ),
    "choir.exec": ShortTool(
        "Run a shell command in the workspace; return exit code and output.", ("command", "network")
    ),
    "choir.fs.read": ShortTool(
        "Read a file of the workspace; of a long one a range of lines at a time.",
        ("path", "start_line", "end_line"),
    ),
    "choir.fs.search": ShortTool(
        "Search the workspace's files with a regular expression.", ("pattern", "path", "files_only")
    ),
    "choir.fs.write": ShortTool(
        "Write a file of the workspace: the whole file, or with mode append, replace (start_line to "
        "end_line) or insert.",
        ("path", "content", "mode", "start_line", "end_line"),
    ),
    "choir.memory.query": ShortTool(
        "Search memory with full words before you say you do not know. store `knowledge`: facts, notes, "
        "documents; `session`: earlier sessions; `working`: this one.",
        ("store", "query", "after"),
    ),
    "choir.memory.upsert": ShortTool(
        "Remember: insert a text, or update or delete the one with a key such as user.birthday.",
        ("operation", "text", "key"),
    ),
    "choir.message.send": ShortTool(
        "Send the user files from .choirtmp/send/. Your answer is sent by itself.",
        ("text", "files", "conversation"),
    ),
    "choir.notion.query": ShortTool(
        "Work with Notion: search (query), read (id), create (id of the parent, title, text), append (id, "
        "text).",
        ("operation", "id", "query", "title", "text"),
    ),
    "choir.schedule.create": ShortTool(
        "Remind the user, or prompt yourself, later: in 5m, at 08:00, every 1d, cron 0 8 * * *.",
        ("kind", "text", "timing", "value"),
    ),
    "choir.schedule.delete": ShortTool("Delete a schedule.", ("schedule_id",)),
    "choir.schedule.list": ShortTool("List schedules.", ()),
    "choir.skill.start": ShortTool(
        "Begin a skill; call it alone. Your next answer is its first step.", ("skill", "input")
    ),
    "choir.skill.transition": ShortTool(
        "Leave the skill's step by one of its transitions (`on`), with what the next step needs "
        "(`context`), or the result (`output`).",
        ("on", "context", "output"),
    ),
    "choir.tts.speak": ShortTool(
        "Speak a text; the audio is in .choirtmp/send/ then.", ("text", "name")
    ),
    "choir.web.browse": ShortTool(
        "Use a web browser. A page is text in which links, buttons and fields have numbers (ref). open "
        "(url), read (start: next_start of a long page), click (ref), type (ref, text, submit), back.",
        ("action", "url", "ref", "text", "submit", "start"),
    ),
    "choir.web.search": ShortTool(
        "Search the web; return titles, addresses and descriptions.", ("query",)
    ),
}


def tools_to_hide(names: list[str], *, with_jobs: bool) -> frozenset[str]:
    """Return the tools that a model with a small window is not offered."""
    return frozenset(
        name
        for name in names
        if name.startswith(BUILT_IN)
        and (name not in SHORT_TOOLS or (name in JOB_TOOLS and not with_jobs))
    )


def shorten_manifest(manifest: ToolManifest) -> ToolManifest:
    """Return the manifest with a short description and fewer parameters, as such a model sees it."""
    short = SHORT_TOOLS.get(manifest.name)
    parameters = manifest.llm.parameters
    if short is None:
        description = _first_sentence(manifest.llm.description)
        view = LlmView(manifest.name, description, _without_long_texts(parameters))
    else:
        view = LlmView(manifest.name, short.description, _only(parameters, short.parameters))
    return replace(manifest, llm=view)


def _only(schema: JsonObject, names: tuple[str, ...]) -> JsonObject:
    properties = schema.get("properties")
    every = properties if isinstance(properties, dict) else {}
    mentioned: JsonObject = {name: every[name] for name in names if name in every}
    return {**schema, "properties": mentioned}


def _first_sentence(text: str) -> str:
    first = text.split(". ", 1)[0].split("\n", 1)[0]
    return first if len(first) <= MAX_DESCRIPTION else f"{first[: MAX_DESCRIPTION - 1]}…"


def _without_long_texts(schema: JsonObject) -> JsonObject:
    return {
        key: _shortened(value)
        for key, value in schema.items()
        if not (
            key == "description"
            and isinstance(value, str)
            and len(value) > MAX_PARAMETER_DESCRIPTION
        )
    }


def _shortened(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return _without_long_texts(value)
        case list():
            return [_shortened(item) for item in value]
    return value
