"""Reporters of the edge lanes' running model calls: send the text written so far to control.

Best effort: control shows the draft and never stores it. Each report contains the whole text, at most one of
a lane is on its way, and text that arrives meanwhile waits for the next one, so neither the model call nor a
heartbeat is delayed. A lost report is repaired by the next one.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import structlog

from choir_agent.control_client.control_client import ControlClient
from choir_agent.lanes.edge_states import EdgeState
from choir_agent.settings import SettingsSource
from choir_common.errors import ChoirError
from choir_common.lanes import is_edge
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


class LaneDraftReporter:
    """Reporter of the draft of one edge lane's reply."""

    def __init__(self, lane: str, control: ControlClient, redactor: Redactor) -> None:
        self._lane = lane
        self._control = control
        self._redactor = redactor
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
    def follow(self, read_rev: int) -> Iterator[OutputListener]:
        """Yield the listener of a model call; report what it receives while the context is open."""
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
                StatusRequest(lane=self._lane, state=EdgeState.REASONING, draft=report)
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


class DraftReporter:
    """Reporter of the drafts of all edge lanes; none waits for another."""

    def __init__(
        self, control: ControlClient, redactor: Redactor, settings: SettingsSource
    ) -> None:
        self._control = control
        self._redactor = redactor
        self._settings = settings
        self._lanes: dict[str, LaneDraftReporter] = {}
        self._not_started: list[LaneDraftReporter] = []
        self._has_new_lane = asyncio.Event()

    def of(self, lane: str) -> LaneDraftReporter:
        """Return the reporter of an edge lane; it is created with the lane's first call."""
        if lane not in self._lanes:
            self._lanes[lane] = LaneDraftReporter(lane, self._control, self._redactor)
            self._not_started.append(self._lanes[lane])
            self._has_new_lane.set()
        return self._lanes[lane]

    @contextlib.contextmanager
    def follow(
        self, lane: str, read_rev: int, *, is_hidden: bool = False
    ) -> Iterator[OutputListener]:
        """Yield the listener of a model call; report what it receives while the context is open.

        The calls of core jobs and hidden ones are streamed, too, so that a long answer is no silence, but
        nobody sees them.
        """
        if not self._settings.current().settings.streaming:
            yield NO_LISTENER
        elif is_hidden or not is_edge(lane):
            yield UNHEARD
        else:
            with self.of(lane).follow(read_rev) as listener:
                yield listener

    async def run(self) -> None:
        """Send the reports of all lanes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._has_new_lane.clear()
                for lane in self._not_started:
                    tasks.create_task(lane.run())
                self._not_started.clear()
                await self._has_new_lane.wait()
