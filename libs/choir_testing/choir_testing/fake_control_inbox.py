"""In-memory fake of control as a channel sees it: messages, presses, cards, history.

Used by tests of the gateway. It records the requests it receives; a test sets the responses.
"""

from choir_common.errors import NotFound
from choir_common.wire.activity import CardMessage
from choir_common.wire.messages import (
    ButtonPress,
    ButtonResponse,
    ChannelTable,
    DeliveryProgress,
    HistoryRequest,
    InboundAccepted,
    InboundMessage,
    OutboundHistory,
    OutboundMessage,
)
from choir_common.wire.pairing import PairingOffer, RequestPairing
from choir_common.wire.triggers import MailDecision, MailOffer

NEUTRAL_RESPONSE = "This is no longer open."


class FakeControlClient:
    """Stores each update once; accepts the nonces that a test has registered."""

    def __init__(self, table: ChannelTable) -> None:
        self.table = table
        self.accepted: list[InboundMessage] = []
        self.pressed: list[ButtonPress] = []
        self.cards: dict[tuple[str, str], str] = {}
        self.progress: list[DeliveryProgress] = []
        self.outbox: list[OutboundMessage] = []
        self.nonces: dict[str, str] = {}
        """Response to a press with this data, used once."""
        self._answers: dict[str, ButtonResponse] = {}
        self.strangers: list[RequestPairing] = []
        """Requests for pairing; each is answered with a code."""
        self.decisions: list[MailDecision] = []
        """What becomes of the next mails with content; later ones are taken."""
        self.offers: list[MailOffer] = []
        """Mails that were taken."""

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        """Store a message, once per (gateway, update_id). Raises NotFound for an unknown DM."""
        if (message.dm, message.gateway) not in {(dm.name, dm.gateway) for dm in self.table.dms}:
            raise NotFound(f"There is no DM {message.dm!r} on gateway {message.gateway!r}.")
        known = [(m.gateway, m.update_id) for m in self.accepted]
        duplicate = (message.gateway, message.update_id) in known
        if not duplicate:
            known.append((message.gateway, message.update_id))
            self.accepted.append(message)
        number = known.index((message.gateway, message.update_id)) + 1
        return InboundAccepted(
            inbox_id=f"in_{number}", duplicate=duplicate, agent_id="main", agent_state="running"
        )

    async def history(self, request: HistoryRequest) -> OutboundHistory:
        """Return a DM's outbound messages after an id."""
        of_dm = [m for m in self.outbox if m.dm == request.dm]
        page = [m for m in of_dm if m.outbox_id > request.after][: request.limit]
        return OutboundHistory(
            messages=tuple(page), last=max((m.outbox_id for m in of_dm), default=0)
        )

    async def channels(self, tokens_version: int = 0) -> ChannelTable:
        """Return the table."""
        return self.table

    async def press(self, press: ButtonPress) -> ButtonResponse:
        """Consume a nonce; a repeated press gets the same response, any other a neutral one."""
        self.pressed.append(press)
        if press.callback_id not in self._answers:
            answer = self.nonces.pop(press.data, NEUTRAL_RESPONSE)
            self._answers[press.callback_id] = ButtonResponse(answer=answer)
        return self._answers[press.callback_id]

    async def keep_card(self, card: CardMessage) -> None:
        """Record the message id of a card."""
        self.cards[card.dm, card.card_id] = card.message_id

    async def keep_progress(self, progress: DeliveryProgress) -> None:
        """Record delivery progress."""
        self.progress.append(progress)

    async def request_pairing(self, request: RequestPairing) -> PairingOffer:
        """Record a request and offer a code."""
        self.strangers.append(request)
        return PairingOffer(text=f"Your pairing code is CODE{len(self.strangers)}.")

    async def offer_mail(self, offer: MailOffer) -> MailDecision:
        """Take a mail, once per sender and id; ask first for its content, with files for the first DM."""
        if any((it.sender, it.mail_id) == (offer.sender, offer.mail_id) for it in self.offers):
            return MailDecision(outcome="taken")
        if offer.content is None:
            dms = tuple(dm.name for dm in self.table.dms[:1])
            return MailDecision(outcome="send_content", dms=dms)
        decision = self.decisions.pop(0) if self.decisions else MailDecision(outcome="taken")
        if decision.outcome == "taken":
            self.offers.append(offer)
        return decision
