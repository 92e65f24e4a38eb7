"""Reading of the files in the user's message, before the model reads the message.

The beginning of each document becomes part of the log, so that later prompts show the same text. Pictures
are not read here: models that see get them with each prompt (`models/picture_model`).
"""

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.log.session_state import TurnState
from choir_agent.models.picture_model import MAX_PDF_BYTES, MAX_PDF_PAGES
from choir_agent.settings import SettingsSource
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.errors import Unavailable
from choir_common.wire.attachments import AttachmentText, ReceivedFile
from choir_common.wire.events import AttachmentsRead, UserMessageStarted
from choir_files.errors import UnreadableFile
from choir_files.formats import detect_format

log = structlog.get_logger("choir.agent.attachments")

MAX_CHARS = 16_000
"""Characters of all files of a message; a file's rest can be read with `choir.fs.read`."""


class AttachmentReader:
    """Reader of the texts of open turns' files, once for each turn."""

    def __init__(
        self,
        *,
        arbiter: Arbiter,
        memory: WorkingMemory,
        files: WorkspaceFiles,
        settings: SettingsSource,
    ) -> None:
        self._arbiter = arbiter
        self._memory = memory
        self._files = files
        self._settings = settings

    async def read(self, turn: TurnState) -> None:
        """Commit the texts of the files of an open turn's message, if it has any that can be read."""
        if turn.attachments_read or turn.steps or turn.cancelled:
            return
        window = self._memory.window(turn.lane)
        head_turn = window.find_turn(turn.turn_id) if window is not None else None
        message = head_turn.head.payload if head_turn is not None else None
        if not isinstance(message, UserMessageStarted):
            return
        texts: list[AttachmentText] = []
        model = self._settings.current().settings.model
        chars = model.window_tokens // 2 if model.has_small_context else MAX_CHARS
        for file in message.attachments:
            text = await self._text_of(file, chars)
            if text is not None:
                texts.append(text)
                chars -= len(text.text)
        if texts:
            event = AttachmentsRead(turn_id=turn.turn_id, texts=tuple(texts))
            # Not urgent, hence `more_follows`: replicated together with the next event.
            self._arbiter.commit(turn.lane, event, more_follows=True)

    async def _text_of(self, file: ReceivedFile, max_chars: int) -> AttachmentText | None:
        file_format = detect_format(file.name) or detect_format(file.path)
        if not file.path or file_format is None or file.mime.startswith(("image/", "audio/")):
            return None
        pages = await self._count_pages(file) if file_format == "pdf" else 0
        try:
            text = await self._files.read_text(file.path, file_format)
        except (UnreadableFile, ToolFailed, Unavailable) as error:
            log.info("attachment not read", path=file.path, error=str(error))
            return AttachmentText(path=file.path, problem=_problem(error), pages=pages)
        return AttachmentText(
            path=file.path, text=text[:max_chars], total_chars=len(text), pages=pages
        )

    async def _count_pages(self, file: ReceivedFile) -> int:
        """Return the pages of a PDF that a model may get as it is, or 0."""
        try:
            pages = await self._files.count_pages(file.path, MAX_PDF_BYTES)
        except (UnreadableFile, ToolFailed, Unavailable):
            return 0  # reading its text says why
        return pages if pages <= MAX_PDF_PAGES else 0


def _problem(error: UnreadableFile | ToolFailed | Unavailable) -> str:
    if isinstance(error, UnreadableFile):
        return str(error)
    return f"cannot be opened ({error.message.rstrip('.')})"
