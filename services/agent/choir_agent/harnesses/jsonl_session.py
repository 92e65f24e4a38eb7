"""A harness that speaks the JSON lines of docs/harnesses.md: for programs without ACP."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

from choir_agent.harnesses.acp_messages import cancelled_result, label, tokens, usd
from choir_agent.harnesses.acp_requests import PERMISSION, permission_arguments
from choir_agent.harnesses.program import ProgramLines
from choir_agent.harnesses.updates import (
    Asked,
    HarnessAbout,
    HarnessError,
    HarnessUpdate,
    HarnessUsage,
    PlanReport,
    Said,
    Step,
    TurnOutcome,
)
from choir_common.i18n import _
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject

PROTOCOL_VERSION = 1
CANCEL_WITHIN_S = 3.0
MAX_PLAN = 30
MAX_ID = 200
OUTCOMES: Mapping[str, str] = {
    "completed": "end_turn",
    "failed": "failed",
    "refused": "refusal",
    "limit": "max_turn_requests",
    "cancelled": "cancelled",
}


class JsonLinesSession:
    """A connection with the harness, and its only session."""

    def __init__(self, lines: ProgramLines, workspace: str) -> None:
        self._lines, self._workspace = lines, workspace
        self._about = HarnessAbout(str(PROTOCOL_VERSION))
        self._has_turn = False

    @property
    def about(self) -> HarnessAbout:
        """What it says of itself."""
        return self._about

    async def initialize(self) -> None:
        """Make the handshake; raises HarnessError if it does not answer as it should."""
        await self._lines.send({"type": "hello", "protocol": PROTOCOL_VERSION})
        answer = await self._wait_for("hello")
        if answer.get("protocol") != PROTOCOL_VERSION:
            text = label(str(answer.get("protocol")))
            raise HarnessError(
                _("it speaks version {text}, and Choir {protocol_version}").format(
                    text=text, protocol_version=PROTOCOL_VERSION
                )
            )
        can_resume = answer.get("resume") is True
        self._about = HarnessAbout(
            protocol_version=str(PROTOCOL_VERSION),
            name=label(str(answer.get("name") or "")),
            capabilities=("resume",) if can_resume else (),
            can_resume=can_resume,
        )

    async def open(self, session_id: str) -> str:
        """Continue a session, or start one; return its id."""
        begin: JsonObject = {"type": "session", "cwd": self._workspace}
        if session_id:
            begin["resume"] = session_id
        await self._lines.send(begin)
        answer = await self._wait_for("session")
        started = answer.get("id")
        if not isinstance(started, str) or not 0 < len(started) <= MAX_ID:
            raise HarnessError(_("it started a session without a valid id"))
        return started

    async def prompt(self, text: str) -> None:
        """Send an instruction."""
        await self._lines.send({"type": "prompt", "text": text})
        self._has_turn = True

    async def next_update(self) -> HarnessUpdate:
        """Return what it says or asks for next."""
        while True:
            update = self._parse(await self._lines.read())
            if update is not None:
                return update
            self._lines.note_strange()

    async def wait_for_more(self) -> bool:
        """Wait until it has written a message; False at its end. A cancelled wait loses nothing."""
        return await self._lines.has_more(None)

    async def further_update(self, within_s: float) -> HarnessUpdate | None:
        """Return what it says or asks for within some seconds; None if it does not."""
        while await self._lines.has_more(within_s):
            update = self._parse(await self._lines.read())
            if update is not None:
                return update
            self._lines.note_strange()
        return None

    async def cancel(self, open_requests: Iterable[Asked]) -> None:
        """Ask it to end its turn, and answer its requests with no; it has a moment to do so."""
        if not self._has_turn:
            return
        async with asyncio.timeout(CANCEL_WITHIN_S):
            await self._lines.send({"type": "cancel"})
            for request in open_requests:
                await request.answer(cancelled_result(request.tool))
            while self._has_turn:
                update = await self.next_update()
                if isinstance(update, Asked):
                    await update.answer(cancelled_result(PERMISSION))

    async def _wait_for(self, kind: str) -> JsonObject:
        while True:
            message = await self._lines.read()
            if message.get("type") == kind:
                return message
            if message.get("type") == "error":
                raise HarnessError(label(str(message.get("message"))))
            self._lines.note_strange()

    def _parse(self, message: JsonObject) -> HarnessUpdate | None:
        match message:
            case {"type": "message", "text": str(text)}:
                return Said(text)
            case {"type": "step", "title": str(title)}:
                return Step(label(title), label(str(message.get("status") or "pending")))
            case {"type": "plan", "steps": list(steps)}:
                return PlanReport(tuple((label(str(step)), "") for step in steps[:MAX_PLAN]))
            case {"type": "usage"}:
                return _usage(message)
            case {"type": "permission", "id": str(number)} if len(number) <= MAX_ID:
                arguments = permission_arguments(
                    title=message.get("title"),
                    kind=message.get("kind"),
                    details=message.get("input"),
                )
                return Asked(PERMISSION, arguments, partial(self._answer, number))
            case {"type": "done", "outcome": str(outcome)} if self._has_turn:
                self._has_turn = False
                closing_text = message.get("text")
                ending = closing_text if isinstance(closing_text, str) else ""
                return TurnOutcome(OUTCOMES.get(outcome, "failed"), ending)
            case _:
                return None

    async def _answer(self, number: str, result: ToolResultCommitted) -> None:
        is_allowed = result.status == "success"
        await self._lines.send({"type": "answer", "id": number, "allowed": is_allowed})


def _usage(message: JsonObject) -> HarnessUsage:
    return HarnessUsage(
        input_tokens=tokens(message["input_tokens"]) if "input_tokens" in message else None,
        output_tokens=tokens(message.get("output_tokens")),
        cached_tokens=tokens(message.get("cached_tokens")),
        cost_usd=usd(message.get("cost_usd")),
    )
