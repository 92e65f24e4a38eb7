"""Detection of a stopped Choir or agent while `chat` waits for an answer.

A stop leaves open work for the next start. The notice of it in the conversation answers no message, and a
stop of Choir itself gives none.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.target import Target
from choir_local.home import Home
from choirctl.api.control import ControlClient
from choirctl.chat.dm_client import DmClient
from choirctl.start.background import is_running

POLL_INTERVAL_S = 0.5
STOPPED_S = 20.0
"""Longer than a restart or update keeps an agent stopped."""
SILENT_S = 60.0
"""Longer than it takes to replace a part of Choir that crashed or hangs."""
STORED_NOTE = _(
    "The message is stored: {agent} continues with it {when}, and `choirctl chat` "
    "then shows the answer."
)


@dataclass(slots=True)
class AnswerMonitor:
    """Tracks whether a message can still be answered before the next start."""

    agent_id: str
    spoken: str
    """The address of Choir as it is shown to the user."""
    stopped_since: float | None = None
    silent_since: float | None = None

    def check(self, now: float, *, is_up: bool, is_connected: bool, is_stopped: bool) -> str | None:
        """Record an observation; return a message why no answer will come, or None if one still may.

        `now` is monotonic seconds. `is_up`: Choir runs on this machine (True if it is remote). `is_heard`:
        its event stream is open. `is_stopped`: the agent is stopped.
        """
        self.silent_since = None if is_connected else self.silent_since or now
        self.stopped_since = (self.stopped_since or now) if is_stopped else None
        name = self.agent_id
        if not is_up:
            when = _("when Choir is started again (`choirctl up`)")
            return _("Choir was stopped before {name} answered. {format}").format(
                name=name, format=STORED_NOTE.format(agent=name, when=when)
            )
        if self.silent_since is not None and now - self.silent_since >= SILENT_S:
            return _(
                "Choir stopped before {name} answered, or cannot be reached: {spoken} has been "
                "silent for {silent_s:g} s. {format}"
            ).format(
                name=name,
                spoken=self.spoken,
                silent_s=SILENT_S,
                format=STORED_NOTE.format(agent=name, when=_("when it is back")),
            )
        if self.stopped_since is not None and now - self.stopped_since >= STOPPED_S:
            when = _("when it is started again (`choirctl agent start {name}`)").format(name=name)
            return _("{name} was stopped before it answered. {format}").format(
                name=name, format=STORED_NOTE.format(agent=name, when=when)
            )
        return None


async def wait_until_stopped(
    api: ControlClient, place: Target, conversation: DmClient, agent_id: str
) -> str:
    """Wait until no answer can be expected before the next start; return the reason as a message."""
    home, prospect = Home(place.home), AnswerMonitor(agent_id, place.display_address)
    # for a remote Choir or one in containers, silence is the only sign that it has stopped
    is_here = place.url is None and is_running(home)
    is_stopped = False
    while True:
        await asyncio.sleep(POLL_INTERVAL_S)
        why = prospect.check(
            time.monotonic(),
            is_up=not is_here or is_running(home),
            is_connected=conversation.is_connected,
            is_stopped=is_stopped,
        )
        if why is not None:
            return why
        with contextlib.suppress(ChoirError):
            is_stopped = (await api.agents.get(agent_id)).state == "stopped"
