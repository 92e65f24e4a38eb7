"""Decisions by button: only by the user who was asked, once, and on the content that was shown.

Called by `bus_doors` with every press that a channel reports; `decide` does the rest. A press
that
does not fit has no effect and is counted. It gets one fixed answer, which does not reveal what is
wrong with it.
"""

from collections.abc import Callable

import structlog

from choir_common.errors import Conflict
from choir_common.wire.messages import ButtonPress, ButtonResponse
from choir_control.approvals.nonce import parse_button_data
from choir_control.approvals.service import ApprovalService
from choir_control.approvals.store import Approval, ApprovalStore, PressedButton, Verdict
from choir_control.approvals.texts import TOO_LATE

log = structlog.get_logger("choir.approvals")

REFUSED = ButtonResponse(answer="This is not open any more.")
ANSWERS: dict[Verdict, str] = {"approved": "Approved.", "rejected": "Rejected."}

DmOf = Callable[[str, str], str | None]
"""Returns the conversation (DM) of a user on a gateway, or None."""


class ApprovalButtons:
    """Handler of presses of approval buttons."""

    def __init__(
        self, store: ApprovalStore, desk: ApprovalService, dm_of: DmOf, refused: Callable[[], None]
    ) -> None:
        """Create the handler; `refused` counts presses without effect."""
        self._store = store
        self._desk = desk
        self._dm_of = dm_of
        self._refused = refused

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Store the decision and return the answer for the user; a repeated press gets the same answer.

        The message with the buttons is edited later, through the outbox.
        """
        dm = self._dm_of(press.gateway, press.user_id)
        read = parse_button_data(press.data)
        # In a private chat the chat id is the user id, so this refuses buttons forwarded to other
        # chats.
        if read is None or dm is None or press.chat_id != press.user_id:
            return self._refuse(press, "malformed or a stranger's")
        nonce, verdict = read
        hand = PressedButton(nonce.sha256, dm, press.user_id, press.callback_id)
        known = await self._store.find_by_press(hand)
        if known is None:
            return self._refuse(press, "unknown or another's")
        # The same press again: the channel repeated it after a lost answer.
        if known.answer is not None:
            return _answer(known.answer, await self._desk.find(known.approval_id))
        try:
            decided = await self._desk.decide(known.approval_id, verdict, f"dm {dm}", hand=hand)
        except Conflict:
            return self._refuse(press, "too late")
        return _answer(verdict, decided)

    def _refuse(self, press: ButtonPress, why: str) -> ButtonResponse:
        self._refused()
        log.warning("a button had no effect", gateway=press.gateway, why=why)
        return REFUSED


def _answer(verdict: Verdict, decided: Approval) -> ButtonResponse:
    """Say what was decided; that nothing runs, if the session had ended before."""
    too_late = verdict == "approved" and decided.session_ended
    return ButtonResponse(answer=f"{ANSWERS[verdict]} {TOO_LATE}" if too_late else ANSWERS[verdict])
