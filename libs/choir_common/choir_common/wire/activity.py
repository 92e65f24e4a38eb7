"""Live activity of an agent in a conversation (DM): typing, the draft of a reply, and progress cards.

Published by control, shown by the gateway. Not durable: the state is sent again while it lasts.
"""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.wire.model import WireModel

MAX_CARD = 3_500
"""Characters; a card is one message on every channel."""

MAX_DRAFT = 32_000
"""Characters of a draft; a longer reply is shown completely when it is stored."""

CardId = Annotated[str, Field(min_length=1, max_length=100)]


class Typing(WireModel):
    """The agent is preparing a reply."""

    kind: Literal["typing"] = "typing"
    lasts_s: float = Field(default=30.0, gt=0, le=300)
    """Seconds to show it unless `Idle` arrives first; it is sent again before they end."""


class Idle(WireModel):
    """The agent waits for the user."""

    kind: Literal["idle"] = "idle"


class Draft(WireModel):
    """The beginning of a reply that the model is writing; the stored reply replaces it."""

    kind: Literal["draft"] = "draft"
    text: str = Field(max_length=MAX_DRAFT)
    """Everything written so far; empty: the model began again."""


class DraftDelta(WireModel):
    """A change of a draft for a client of the console (event `delta`)."""

    offset: int = Field(ge=0)
    """0: `text` replaces the draft; otherwise `text` is appended to its `offset` characters."""
    text: str


class Card(WireModel):
    """The progress of a core job or an operation: one message, edited in place."""

    kind: Literal["card"] = "card"
    card_id: CardId
    text: str = Field(min_length=1, max_length=MAX_CARD)
    done: bool = False
    """The final state of this card; it must be shown."""
    message_id: str | None = None
    """The message that shows the card, as stored through `ControlClient.store_card`, so that a restarted
    gateway edits the same one; None for a new card."""


class DmActivity(WireModel):
    """The current activity in a DM."""

    dm: str
    gateway: str
    what: Annotated[Typing | Idle | Draft | Card, Field(discriminator="kind")]


class CardMessage(WireModel):
    """gateway → control: the message id of a card."""

    dm: str
    card_id: CardId
    message_id: str = Field(min_length=1, max_length=256)
