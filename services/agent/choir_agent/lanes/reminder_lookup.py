"""Reminders from memory for a user's message, fetched before the model reads it.

Memory is queried through control's host tools. Reminders are optional: if the query fails or exceeds its
deadline, the message is answered without them.
"""

import asyncio
from collections.abc import Sequence

import structlog
from pydantic import ValidationError

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.session_state import TurnState
from choir_agent.settings import SettingsSource
from choir_agent.working_memory.lane_window import LaneWindow
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.clock import Clock
from choir_common.errors import ChoirError, Fenced, Unauthorized
from choir_common.ids import new_id
from choir_common.wire.events import RemindersAdded, UserMessageStarted
from choir_common.wire.memory_config import ReminderConfig
from choir_common.wire.memory_recall import MAX_KNOWN_DOCUMENTS, Reminder, Reminders
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest

log = structlog.get_logger("choir.agent.remind")

HOST_TOOL = "choir.memory.remind"
DEADLINE_S = 1.0
EMPTY_MEMORY_PAUSE_S = 60.0
"""Seconds without queries after memory reported that it is empty: the query would delay every short
turn."""
SMALL_CONTEXT_TOKENS = 300
"""Tokens of reminders at most, if the model's context window is small."""
MAX_TEXT = 4_000
"""Characters of a message that are used as query; the subject of a message is usually at its beginning."""


class ReminderLookup:
    """Lookup of memory's reminders for the message of an open turn, at most once for each."""

    def __init__(
        self,
        *,
        control: ControlClient,
        arbiter: Arbiter,
        memory: WorkingMemory,
        settings: SettingsSource,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._empty_until = 0.0
        self._control = control
        self._arbiter = arbiter
        self._memory = memory
        self._settings = settings

    async def remind(self, turn_id: str) -> None:
        """Commit what memory returns for the message of a turn, if anything.

        Raises Fenced or Unauthorized if the session is no longer ours.
        """
        turn = self._arbiter.state.find_turn(turn_id)
        settings = self._settings.current().settings
        budget = settings.reminder_tokens
        if settings.model.has_small_context:
            budget = min(budget, SMALL_CONTEXT_TOKENS)
        query = self._query_text(turn)
        now = self._clock.monotonic()
        if not budget or turn is None or not query or now < self._empty_until:
            return
        window = self._memory.window(turn.lane)
        arguments = _arguments(query, max(budget, 50), settings.reminders, window=window)
        reply = await self._ask(arguments, turn.dm)
        if reply is not None and reply.empty:
            self._empty_until = now + EMPTY_MEMORY_PAUSE_S
        elif reply is not None:
            event = RemindersAdded(
                turn_id=turn.turn_id,
                reminders=self._not_shown(reply.reminders, window),
                receipts=reply.receipts,
                collections=_not_named(reply.collections, window),
            )
            if event.reminders or event.collections:
                # Not urgent, hence `more_follows`: replicated together with the next event.
                self._arbiter.commit(turn.lane, event, more_follows=True)

    def _not_shown(
        self, reminders: Sequence[Reminder], window: LaneWindow | None
    ) -> tuple[Reminder, ...]:
        """Drop reminders from earlier sessions if the prompt already has their text as a carried event."""
        carried = self._arbiter.state.carried_from
        return tuple(
            reminder
            for reminder in reminders
            if window is None
            or reminder.session_id not in carried
            or not window.contains_text(reminder.text)
        )

    def _query_text(self, turn: TurnState | None) -> str:
        """Return the text of the user's message; empty once the model has begun to answer."""
        if turn is None or turn.reminded or turn.steps or turn.cancelled:
            return ""
        window = self._memory.window(turn.lane)
        message = window.turns[-1].head.payload if window and window.turns else None
        if not isinstance(message, UserMessageStarted) or message.turn_id != turn.turn_id:
            return ""
        return f"{message.text}\n{message.reply_to}".strip()[:MAX_TEXT]

    async def _ask(self, arguments: JsonObject, dm: str) -> Reminders | None:
        call_id = new_id("call")
        request = HostToolRequest(tool_name=HOST_TOOL, call_id=call_id, input=arguments, dm=dm)
        try:
            async with asyncio.timeout(DEADLINE_S):
                answer = await self._control.use_host_tool(request, DEADLINE_S)
            if answer.status != "success":
                return None
            return Reminders.model_validate(answer.output, strict=False)
        except (Fenced, Unauthorized):
            raise
        except (ChoirError, TimeoutError, ValidationError) as error:
            log.info("reminders not available", error=str(error)[:200])
            return None


def _not_named(collections: Sequence[str], window: LaneWindow | None) -> tuple[str, ...]:
    """Drop collections that the prompt names already."""
    in_prompt = window.named_collections if window else frozenset()
    return tuple(name for name in collections if name not in in_prompt)


def _arguments(
    query: str, budget: int, filters: ReminderConfig, *, window: LaneWindow | None
) -> JsonObject:
    document_ids = window.reminder_document_ids[-MAX_KNOWN_DOCUMENTS:] if window else ()
    arguments: JsonObject = {"text": query, "known": [*document_ids], "budget_tokens": budget}
    return arguments | {"scopes": [*filters.scopes], "tags": filters.tags}
