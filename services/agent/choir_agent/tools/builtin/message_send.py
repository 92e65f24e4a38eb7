"""`choir.message.send`: send text and files to the user before the turn ends.

Runs under lock `choirtmp` S. The message is the Reply event in the output. Control copies its files when it
stores that event, so later changes do not affect what is sent. A message to another conversation of the agent
says where it comes from, and its event is in the lane of that conversation, whose prompts show it.
"""

import mimetypes
import os

from choir_agent.log.session_log import RecentIds
from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_agent.tools.workspace import SEND_DIR, STAGING_LOCK, Workspace
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.lanes import edge_lane
from choir_common.wire.attachments import ANY_MIME, MAX_FILES, AttachmentKind, SentFile
from choir_common.wire.config import AgentConversation, FileLimits
from choir_common.wire.events import Reply
from choir_common.wire.model import JsonObject

MAX_TEXT = 20_000
MIB = 1024 * 1024
CONVERSATION = "conversation"
KINDS: tuple[AttachmentKind, ...] = ("document", "photo", "voice", "audio", "video")
PHOTOS = ("image/jpeg", "image/png", "image/webp")
VOICES = ("audio/ogg", "audio/opus")
VIDEOS = ("video/mp4",)

MANIFEST = ToolManifest(
    LlmView(
        name="choir.message.send",
        description=(
            "Send the user files (pictures, speech, videos, any document), or text that cannot wait; your "
            f"answer at the end of the turn is sent by itself. Files must lie in {SEND_DIR}/; they are gone "
            "from there once they are delivered."
        ),
        parameters={
            "type": "object",
            "properties": {
                "text": {"type": "string", "maxLength": MAX_TEXT},
                # Offered only while there are several, with their names (`conversation_argument`).
                CONVERSATION: {"type": "string", "minLength": 1, "maxLength": 64},
                "files": {
                    "type": "array",
                    "maxItems": MAX_FILES,
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string", "minLength": 1},
                            "kind": {
                                "type": "string",
                                "enum": [*KINDS],
                                "description": "default: by the name",
                            },
                        },
                        "required": ["path"],
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(sends="conversations"),
        timeout_ms=10_000,
        # Like a reply at the end of a turn: the returned event is sent, once per call.
        side_effect="none",
        idempotent=True,
        locks=(LockTemplate(STAGING_LOCK, "S"),),
    ),
)


class MessageSendTool:
    """Sends a message."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace, sent: RecentIds) -> None:
        """Create the tool; `sent` contains the ids of calls whose message is in the log."""
        self._workspace = workspace
        self._sent = sent

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Send the message; raises ToolFailed for a file that cannot be sent."""
        text = str(arguments.get("text") or "")
        limits = context.settings.limits if context.settings else FileLimits()
        entries = arguments.get("files")
        items = (
            [item for item in entries if isinstance(item, dict)]
            if isinstance(entries, list)
            else []
        )
        if not text.strip() and not items:
            raise ToolFailed("bad_input", "A message needs text or a file.")
        target, lane = _target(context, arguments)
        where = f" to {target}" if lane else ""
        output: JsonObject = {
            "summary": f"sent{where} with {len(items)} files",
            "files": len(items),
        }
        if context.call_id in self._sent:
            # A crash interrupted the call after it had sent the message.
            return ToolOutput(output, str(output["summary"]))
        files = tuple(self._file(item, limits.sent_mb) for item in items)
        reply = Reply(
            # No turn: this message neither ends the turn nor replaces its reply.
            turn_id=None,
            dm=target,
            text=f"{_heading(context)}\n{text}" if lane else text,
            kind="message",
            attachments=files,
            call_id=context.call_id,
            from_lane=context.lane if lane else "",
        )
        return ToolOutput(output, str(output["summary"]), (reply,), lane)

    def _file(self, item: JsonObject, most_mb: int) -> SentFile:
        path = self._workspace.canonical(str(item["path"]))
        if not path.startswith(f"{SEND_DIR}/"):
            raise ToolFailed(
                "bad_path", f"{path} is not in {SEND_DIR}/. Copy it there, then send it."
            )
        opened = self._workspace.open_file(path)
        try:
            size = os.fstat(opened).st_size
        finally:
            os.close(opened)
        if size == 0:
            raise ToolFailed("empty_file", f"{path} is empty.")
        if size > most_mb * MIB:
            raise ToolFailed("too_large", f"{path} is larger than the limit of {most_mb} MB.")
        mime = mimetypes.guess_type(path)[0] or ANY_MIME
        return SentFile(path=path, name=path.rsplit("/", 1)[-1], kind=_kind(item, mime), mime=mime)


def _target(context: CallContext, arguments: JsonObject) -> tuple[str, str]:
    """Return the conversation of the message, and its lane if it is another one; raises ToolFailed."""
    target = arguments.get(CONVERSATION) or context.dm
    if target == context.dm:
        return context.dm, ""
    names = [it.name for it in _conversations(context)]
    if target not in names:
        # It may have left the agent while the call waited.
        raise ToolFailed("unknown_conversation", f"You have no conversation {target!r} any more.")
    return str(target), edge_lane(str(target), home_dm=names[0])


def _heading(context: CallContext) -> str:
    """Return the line that tells the reader where a message comes from; no model can write another one."""
    people = {it.name: it.person for it in _conversations(context)}
    person = people.get(context.dm, "")
    return f"[From {person}, {context.dm}]" if person else f"[From {context.dm}]"


def _conversations(context: CallContext) -> tuple[AgentConversation, ...]:
    return context.settings.conversations if context.settings else ()


def _kind(item: JsonObject, mime: str) -> AttachmentKind:
    for kind in KINDS:
        if item.get("kind") == kind:
            return kind
    if mime in PHOTOS:
        return "photo"
    if mime in VOICES:
        return "voice"
    if mime in VIDEOS:
        return "video"
    return "audio" if mime.startswith("audio/") else "document"
