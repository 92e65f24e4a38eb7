"""Decisions by mail: a reply to a question with a number is the press of its button. Called by `receiver`.

The reply names the question by its Message-ID, and control returns the question's buttons, so no secret of a
button is stored or sent. Only control validates the press.
"""

from dataclasses import dataclass
from enum import Enum

from choir_common.clients.control import ControlClient
from choir_common.i18n import _
from choir_common.wire.messages import ButtonPress, DmBinding, HistoryRequest, OutboundMessage
from choir_gateway.channels.email.choices import UnclearChoice, find_choice, looks_like_choice
from choir_gateway.channels.email.mail_parser import ParsedMail
from choir_gateway.channels.email.message_ids import (
    find_outbox_id,
    is_question,
    make_message_id,
    short_id,
)

ENDED = _("This question has ended; nothing was decided.")


class Outcome(Enum):
    """What a reply is, besides a decision."""

    MESSAGE = "It is a message for the agent."
    HANDLED = "It needs no more than its note."


@dataclass(frozen=True, slots=True)
class ReplyResult:
    """The result of a reply."""

    outcome: Outcome
    note: str = ""
    """A sentence for the user."""
    question: str | None = None
    """The short id of the question that was answered."""


class QuestionAnswerer:
    """Recognises answers to questions in one mailbox, and reports them to control."""

    def __init__(self, gateway: str, address: str, control: ControlClient) -> None:
        self._gateway = gateway
        self._address = address
        self._control = control

    async def answer(self, mail: ParsedMail, dm: DmBinding, mail_id: str) -> ReplyResult:
        """Decide if a mail answers a question; a repeated mail has the same effect as the first.

        Raises the errors of control.
        """
        question_id = next((it for it in mail.answers if is_question(it)), None)
        if question_id is None:
            return ReplyResult(Outcome.MESSAGE)
        question = await self._find_question(question_id, dm)
        if question is None:
            if looks_like_choice(mail.body.own):
                return ReplyResult(Outcome.HANDLED, ENDED)
            return ReplyResult(Outcome.MESSAGE)
        choice = find_choice(mail.body.own, question.buttons)
        match choice:
            case None:
                return ReplyResult(Outcome.MESSAGE)
            case UnclearChoice.MORE_TEXT:
                # The text may be for the agent.
                return ReplyResult(Outcome.MESSAGE, choice.value)
            case UnclearChoice.NO_SUCH_CHOICE:
                return ReplyResult(Outcome.HANDLED, choice.value)
            case button:
                response = await self._control.press(
                    ButtonPress(
                        gateway=self._gateway,
                        user_id=dm.user_id,
                        # Control knows a DM by its user.
                        chat_id=dm.user_id,
                        data=button.data,
                        message_id=short_id(question_id),
                        callback_id=mail_id,
                    )
                )
                note = _("Your answer was {label!r}. {result}").format(
                    label=button.label, result=response.answer
                )
                return ReplyResult(Outcome.HANDLED, note, short_id(question_id))

    async def _find_question(self, message_id: str, dm: DmBinding) -> OutboundMessage | None:
        """Return the question with a Message-ID, if this user was asked in this mailbox."""
        outbox_id = find_outbox_id(message_id)
        if not outbox_id:
            return None
        request = HistoryRequest(dm=dm.name, after=outbox_id - 1, limit=1)
        for message in (await self._control.history(request)).messages:
            is_same = make_message_id(message, self._address) == message_id
            if message.gateway == self._gateway and is_same:
                return message
        return None
