"""Decisions by button: only by the user who was asked, once, and on the content that was shown.

A press that does not fit has no effect and is counted. It gets one fixed answer, which does not
reveal what is wrong with it.
"""

import structlog

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import Message, _, join
from choir_common.wire.messages import ButtonPress, ButtonResponse
from choir_control.approvals.nonce import ButtonNonce, parse_button_data
from choir_control.approvals.service import ApprovalService, GrantChoice
from choir_control.approvals.store import Approval, ApprovalStore, PressedButton, Verdict
from choir_control.approvals.texts import TOO_LATE
from choir_control.configuration.current import ConfigService
from choir_control.log.metrics.meter import ControlMetrics

log = structlog.get_logger("choir.approvals")

REFUSED = _("This is no longer open.")
REFUSED_IN_GROUP = _("A group decides on nothing. Only an admin can, in the own conversation.")
ANSWERS: dict[Verdict, Message] = {"approved": _("Approved."), "rejected": _("Rejected.")}


class ApprovalButtons:
    """Handler of presses of approval buttons."""

    def __init__(
        self,
        store: ApprovalStore,
        *,
        approvals: ApprovalService,
        configuration: ConfigService,
        metrics: ControlMetrics,
    ) -> None:
        self._store = store
        self._approvals = approvals
        self._configuration = configuration
        self._metrics = metrics

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Store the decision and return the answer for the user; a repeated press gets the same answer.

        The message with the buttons is edited later, through the outbox.
        """
        dm = self._find_dm(press.gateway, press.user_id)
        data = parse_button_data(press.data)
        if press.chat_id != press.user_id and self._is_group(press):
            # No request is shown in a group: the press is forged, or of a message from before.
            self._refuse(press, "in a group")
            return self._respond(dm, REFUSED_IN_GROUP)
        if dm is not None and not self._configuration.current.people.may_decide(dm):
            return self._refuse(press, "from a user who does not decide", dm)
        # In a private chat the chat id is the user id, so this refuses buttons forwarded to other
        # chats.
        if data is None or dm is None or press.chat_id != press.user_id:
            return self._refuse(press, "malformed, or from an unknown user", dm)
        button = PressedButton(data.nonce.sha256, dm, press.user_id, press.callback_id)
        earlier = await self._store.find_by_press(button)
        if earlier is None:
            return self._refuse(press, "unknown, or for another user", dm)
        # The same press again: the channel repeated it after a lost answer.
        if earlier.answer is not None:
            approval = await self._approvals.find(earlier.approval_id)
            return self._respond(dm, _answer(earlier.answer, approval))
        approval = await self._approvals.find(earlier.approval_id)
        if data.page is not None:
            return await self._show_page(press, approval, data.nonce, data.page)
        if data.verdict == "approved" and approval.pages_shown < approval.pages:
            return self._refuse(press, "not all of the request was shown", dm)
        try:
            decided = await self._approvals.decide(
                approval.approval_id,
                data.verdict,
                f"dm {dm}",
                button=button,
                scope=GrantChoice(data.scope),
            )
        except (Conflict, InvalidRequest):
            return self._refuse(press, "too late, or not offered", dm)
        return self._respond(dm, _answer(data.verdict, decided))

    async def _show_page(
        self, press: ButtonPress, approval: Approval, nonce: ButtonNonce, page: int
    ) -> ButtonResponse:
        if not await self._approvals.show_page(approval, page, nonce):
            return self._refuse(press, "not the next page", approval.dm)
        text = _("Page {page} of {pages}.").format(page=page, pages=approval.pages)
        return self._respond(approval.dm, text)

    def _is_group(self, press: ButtonPress) -> bool:
        dms = self._configuration.current.config.dms.values()
        return any((dm.gateway, dm.chat_id) == (press.gateway, press.chat_id) for dm in dms)

    def _find_dm(self, gateway: str, user_id: str) -> str | None:
        """Return the conversation (DM) of a user on a gateway, or None."""
        for name, dm in self._configuration.current.config.dms.items():
            if (dm.gateway, dm.user_id) == (gateway, user_id):
                return name
        return None

    def _respond(self, dm: str | None, text: str) -> ButtonResponse:
        return ButtonResponse(answer=self._configuration.translate(dm or "", text))

    def _refuse(self, press: ButtonPress, reason: str, dm: str | None = None) -> ButtonResponse:
        self._metrics.count_refused_press()
        log.warning("a button had no effect", gateway=press.gateway, reason=reason)
        return self._respond(dm, REFUSED)


def _answer(verdict: Verdict, approval: Approval) -> Message:
    """Say what was decided; that nothing runs, if the session had ended before."""
    too_late = verdict == "approved" and approval.session_ended
    return join(" ", (ANSWERS[verdict], TOO_LATE)) if too_late else ANSWERS[verdict]
