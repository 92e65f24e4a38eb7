"""Decisions on pairing by button: only by an admin, in the admin's own conversation."""

import structlog

from choir_common.errors import ChoirError, Unavailable
from choir_common.i18n import _
from choir_common.wire.messages import ButtonPress, ButtonResponse
from choir_control.approvals.buttons import REFUSED, ApprovalButtons
from choir_control.configuration.current import ConfigService
from choir_control.conversations.pairing.codes import PairingPress, parse_decision
from choir_control.conversations.pairing.service import PairingService

log = structlog.get_logger("choir.pairing")


class PairingButtons:
    """Handler of presses: those about pairing, and all others for the approvals."""

    def __init__(
        self, pairing: PairingService, *, approvals: ApprovalButtons, configuration: ConfigService
    ) -> None:
        self._pairing = pairing
        self._approvals = approvals
        self._configuration = configuration

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Store the decision and return the answer for the user. Raises Unavailable."""
        decision = parse_decision(press.data)
        if decision is None:
            return await self._approvals.press(press)
        return await self._decide(press, decision)

    async def _decide(self, press: ButtonPress, decision: PairingPress) -> ButtonResponse:
        snapshot = self._configuration.current
        dm = next(
            (
                name
                for name, it in snapshot.config.dms.items()
                if (it.gateway, it.user_id) == (press.gateway, press.user_id)
            ),
            None,
        )
        # As for approvals: nobody else's button, and none that was forwarded to another chat.
        if dm is None or not snapshot.people.is_admin(dm) or press.chat_id != press.user_id:
            log.warning("a button had no effect", gateway=press.gateway, reason="not an admin's")
            return self._respond(dm, REFUSED)
        is_allowed = decision.verdict == "allow"
        try:
            view = await self._pairing.decide(decision.code, allow=is_allowed, by=f"dm {dm}")
        except Unavailable:
            raise
        except ChoirError as error:
            log.info("a button had no effect", gateway=press.gateway, reason=error.message)
            return self._respond(dm, REFUSED)
        text = _("Allowed: {dm}.").format(dm=view.dm) if is_allowed else _("Refused.")
        return self._respond(dm, text)

    def _respond(self, dm: str | None, text: str) -> ButtonResponse:
        return ButtonResponse(answer=self._configuration.translate(dm or "", text))
