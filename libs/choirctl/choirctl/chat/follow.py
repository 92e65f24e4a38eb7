"""Follower of the session log of the agent bound to a DM, across restarts."""

import asyncio
import contextlib
import time
from typing import Protocol

from choir_common.errors import ChoirError
from choir_common.wire.memory_modes import DEFAULT_MODE, MemoryMode
from choir_common.wire.operator import AgentView
from choirctl.api.control import ControlClient
from choirctl.chat.lane_activity import LaneTracker

POLL_INTERVAL_S = 1.0
OVERLAP_EVENTS = 200  # older events folded without output first: the current turn began in them


class ActivityPrinter(Protocol):
    """Printer of what an agent has done."""

    async def print_activity(self, line: str) -> None:
        """Print one line."""
        ...


class SessionFollower:
    """The current activity of a DM's agent, updated while `run` runs."""

    def __init__(self, api: ControlClient, dm: str, printer: ActivityPrinter) -> None:
        self._api = api
        self._dm = dm
        self._printer = printer
        self.lanes = LaneTracker()
        self.memory_mode: MemoryMode = DEFAULT_MODE
        """Memory mode of the DM, as last read."""
        self.shown_revs: dict[str, int] = {}
        """The last revision shown to the user, by session id; only later events are printed."""

    async def run(self) -> None:
        """Follow one session after the other until cancelled; errors are ignored and retried."""
        ended_session = ""
        while True:
            with contextlib.suppress(ChoirError):
                agent = await self.bound_agent()
                if agent is not None and agent.session_id not in (None, ended_session):
                    ended_session = await self._follow(agent)
            self.lanes.clear()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def bound_agent(self) -> AgentView | None:
        """Return the agent that is bound to the DM now, if any, and remember the DM's memory mode."""
        for agent in await self._api.agents.list():
            if agent.bindings is not None and agent.bindings.dm == self._dm:
                self.memory_mode = agent.memory_mode
                return agent
        for dm in await self._api.dms():
            if dm.name == self._dm:
                self.memory_mode = dm.memory_mode
        return None

    async def _follow(self, agent: AgentView) -> str:
        """Fold a session's events until it ends; return its id."""
        session = await self._api.sessions.get(str(agent.session_id))
        self.lanes.start(agent.agent_id, agent.lanes, time.monotonic())
        name = session.session_id
        seen = self.shown_revs.setdefault(name, session.head_rev)
        news = self._api.sessions.follow(name, max(0, seen - OVERLAP_EVENTS))
        async with contextlib.aclosing(news):
            async for event in news:
                line = self.lanes.apply(event, time.monotonic())
                if event.rev > self.shown_revs[name]:
                    self.shown_revs[name] = event.rev
                    if line:
                        await self._printer.print_activity(line)
        return name
