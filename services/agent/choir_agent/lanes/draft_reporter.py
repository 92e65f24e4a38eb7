"""Reporter of the edge lane's running model call: sends the text written so far to control.

Best effort: control shows the draft and never stores it. Each report contains the whole text, at most one is
on its way, and text that arrives meanwhile waits for the next one, so neither the model call nor a heartbeat
is delayed. A lost report is repaired by the next one.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import structlog

from choir_agent.control_client.control_client import ControlClient
from choir_agent.lanes.edge_states import EdgeState
from choir_agent.settings import SettingsSource
from choir_common.errors import ChoirError
from choir_common.lanes import EDGE_LANE, is_edge
from choir_common.redactor import Redactor
from choir_common.wire.activity import MAX_DRAFT
from choir_common.wire.rpc import ReplyDraft, StatusRequest
from choir_models.model import NO_LISTENER, UNHEARD, OutputListener
from choir_models.output_limits import MAX_TEXT

log = structlog.get_logger("choir.agent.draft")

INTERVAL_S = 0.05
RETRY_S = 1.0


class _CallDraft:
    """The text of one model call."""

    def __init__(self, read_rev: int, changed: asyncio.Event) -> None:
        self.read_rev = read_rev
        self.visible_text = ""
        """The text that control has received."""
        self.end = asyncio.Event()
        self._parts: list[str] = []
        self._changed = changed

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._parts)

    def add_text(self, text: str) -> None:
        """Add the next part of the text."""
        self._parts.append(text)
        self._changed.set()

    def add_hidden(self, characters: int) -> None:
        """Ignore output that nobody sees."""

    async def rest(self, pause_s: float) -> None:
        """Wait before the next report; at most until the call ends, so that no other call waits."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.end.wait()

    def restart(self) -> None:
        """Discard the text: the call is made again."""
        self._parts.clear()
        self._changed.set()


class DraftReporter:
    """Reporter of the draft of the edge lane's reply."""

    def __init__(
        self, control: ControlClient, redactor: Redactor, settings: SettingsSource
    ) -> None:
        self._control = control
        self._redactor = redactor
        self._settings = settings
        self._draft: _CallDraft | None = None
        self._text_of_failed_call = ""
        """What control still shows of a call that failed; the next call replaces it."""
        self._changed = asyncio.Event()

    @property
    def shown_text(self) -> str:
        """The text of the running model call if a part of it was shown to the user, else empty."""
        draft = self._draft
        if draft is None or not draft.visible_text:
            return ""
        return self._showable_text(draft.text[:MAX_TEXT])

    @property
    def has_text(self) -> bool:
        """Whether the running model call has written a part of its text, shown or not."""
        return self._draft is not None and bool(self._draft.text.strip())

    @contextlib.contextmanager
    def follow(self, lane: str, read_rev: int) -> Iterator[OutputListener]:
        """Yield the listener of a model call; report what it receives while the context is open.

        The calls of core jobs are streamed, too, so that a long answer is no silence, but nobody sees them.
        """
        if not self._settings.current().settings.streaming:
            yield NO_LISTENER
            return
        if not is_edge(lane):
            yield UNHEARD
            return
        draft = self._draft = _CallDraft(read_rev, self._changed)
        if self._text_of_failed_call:
            draft.visible_text, self._text_of_failed_call = self._text_of_failed_call, ""
            draft.restart()
        try:
            yield draft
        except ChoirError:
            self._text_of_failed_call = draft.visible_text
            raise
        finally:
            self._draft = None
            draft.end.set()

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            await self._changed.wait()
            # An answer that arrived as a whole is complete after the call's next step: it needs no draft.
            await asyncio.sleep(0)
            self._changed.clear()
            if (draft := self._draft) is not None:
                await draft.rest(INTERVAL_S if await self._send(draft) else RETRY_S)

    async def _send(self, draft: _CallDraft) -> bool:
        """Send a draft if it has changed; return False if control did not accept it."""
        text = self._showable_text(draft.text[:MAX_DRAFT])[:MAX_DRAFT]
        if text == draft.visible_text:
            return True
        report = ReplyDraft(read_rev=draft.read_rev, text=text)
        try:
            await self._control.report_status(
                StatusRequest(lane=EDGE_LANE, state=EdgeState.REASONING, draft=report)
            )
        except ChoirError as error:
            log.info("draft not shown", error=error.message)
            return False
        draft.visible_text = text
        return True

    def _showable_text(self, text: str) -> str:
        """Return unfinished text without secrets, also without the beginning of one at its end."""
        # Halves of a character arrive in two parts; one whose other half is missing is left out.
        characters = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
        return self._redactor.redact_unfinished(characters)
