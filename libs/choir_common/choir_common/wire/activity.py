"""What an agent is doing right now, for the eyes of a DM's user: told, shown, and forgotten.

Published by control, shown by the gateway. Losing one costs nothing: the state comes again while it lasts.
"""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.wire.model import Wire

MAX_CARD = 3_500
"""Characters; a card is one message on every channel."""

CardId = Annotated[str, Field(min_length=1, max_length=100)]


class Typing(Wire):
    """The agent works on an answer."""

    kind: Literal["typing"] = "typing"
    lasts_s: float = Field(default=30.0, gt=0, le=300)
    """Show it until `Idle` comes, or for so long: it is told again before."""


class Idle(Wire):
    """The agent waits for the user."""

    kind: Literal["idle"] = "idle"


class Card(Wire):
    """How a core job or an operation stands: one message, edited in place."""

    kind: Literal["card"] = "card"
    card_id: CardId
    text: str = Field(min_length=1, max_length=MAX_CARD)
    done: bool = False
    """The last of this card; it must be shown."""
    message_id: str | None = None
    """The message that shows it, as the gateway told (`ControlInbox.keep_card`), so that one which was
    restarted edits the same; none for a card that was not shown yet."""


class DmActivity(Wire):
    """What goes on in a DM."""

    dm: str
    gateway: str
    what: Annotated[Typing | Idle | Card, Field(discriminator="kind")]


class KeptCard(Wire):
    """gateway → control: this message shows this card."""

    dm: str
    card_id: CardId
    message_id: str = Field(min_length=1, max_length=64)
