"""Drafts of replies: what an agent's model has written so far in each DM, and the changes for a stream.

A draft is in memory only. It ends with the reply that replaces it, when the agent becomes idle, or when it
has not changed for a while because the agent has stopped.
"""

import time
from dataclasses import dataclass

from choir_common.wire.activity import DraftDelta
from choir_common.wire.events import NON_CLOSING_KINDS
from choir_common.wire.messages import OutboundMessage

LASTS_S = 60.0


@dataclass(frozen=True, slots=True)
class _TimedDraft:
    text: str
    at: float


class DraftTable:
    """The current drafts by DM."""

    def __init__(self) -> None:
        self._drafts: dict[str, _TimedDraft] = {}

    def update(self, dm: str, text: str) -> None:
        """Replace the draft of a DM."""
        self._drafts[dm] = _TimedDraft(text, time.monotonic())

    def end(self, dm: str) -> None:
        """Remove the draft of a DM."""
        self._drafts.pop(dm, None)

    def text_of(self, dm: str) -> str:
        """Return the draft of a DM; empty if there is none."""
        draft = self._drafts.get(dm)
        return draft.text if draft and time.monotonic() - draft.at < LASTS_S else ""


def is_final_reply(message: OutboundMessage) -> bool:
    """Return whether a message is the reply that a draft was for."""
    return message.kind not in NON_CLOSING_KINDS and message.edits is None


def delta_between(before: str, now: str) -> DraftDelta | None:
    """Return the change from one text to another; None if they are equal."""
    if before == now:
        return None
    if before and now.startswith(before):
        return DraftDelta(offset=len(before), text=now[len(before) :])
    return DraftDelta(offset=0, text=now)
