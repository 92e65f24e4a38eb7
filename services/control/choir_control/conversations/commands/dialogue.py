"""State of the dialogue with each conversation: numbered lists, open questions and confirmations.

In memory: after a restart a list must be shown again, so a number never decides a request that was not
shown. Bounded by the number of configured conversations, and in groups of those who may change something.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from choir_common.wire.memory_forget import ForgetSelection


@dataclass(frozen=True, slots=True)
class ShownApproval:
    """A request as it was shown: a decision applies to this digest."""

    approval_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """An open "which one?" question in a conversation."""

    command: str
    """The command that the number in the answer completes."""
    last_outbox_id: int
    """Id of the newest outbox message at the time; after a newer one a number is no answer to it."""


@dataclass(frozen=True, slots=True)
class OpenConfirmation:
    """An open "are you sure?" question about a destructive command."""

    text: str
    """The command as it was typed."""
    last_outbox_id: int
    """Id of the newest outbox message at the time; after a newer one a yes is no answer to it."""


@dataclass(slots=True)
class DialogueState:
    """The newest numbered list, staged configuration and open questions of each conversation."""

    _lists: dict[str, tuple[ShownApproval, ...]] = field(default_factory=dict)
    _configs: dict[str, str] = field(default_factory=dict)
    _questions: dict[str, OpenQuestion] = field(default_factory=dict)
    _confirmations: dict[str, OpenConfirmation] = field(default_factory=dict)
    _erasures: dict[str, ForgetSelection] = field(default_factory=dict)
    _pages: dict[str, tuple[ShownApproval, int]] = field(default_factory=dict)

    def set_list(self, dm: str, items: Sequence[ShownApproval]) -> None:
        """Set the items numbered 1, 2, 3 … in a conversation."""
        self._lists[dm] = tuple(items)

    def get_item(self, dm: str, number: int) -> ShownApproval | None:
        """Return the item of a number in the list last shown, or None."""
        items = self._lists.get(dm, ())
        return items[number - 1] if 0 < number <= len(items) else None

    def set_pages(self, dm: str, approval: ShownApproval, count: int) -> None:
        """Store that a conversation was shown the first `count` pages of a request."""
        self._pages[dm] = (approval, count)

    def count_pages(self, dm: str, approval: ShownApproval) -> int:
        """Return how many pages of a request were shown, if no other request was opened since."""
        request, count = self._pages.get(dm, (None, 0))
        return count if request == approval else 0

    def set_question(self, dm: str, question: OpenQuestion) -> None:
        """Store the open question of a conversation."""
        self._questions[dm] = question

    def take_question(self, dm: str) -> OpenQuestion | None:
        """Remove and return the open question of a conversation, or None. Any message closes it."""
        return self._questions.pop(dm, None)

    def set_confirmation(self, dm: str, confirmation: OpenConfirmation) -> None:
        """Store the open confirmation of a conversation."""
        self._confirmations[dm] = confirmation

    def take_confirmation(self, dm: str) -> OpenConfirmation | None:
        """Remove and return the open confirmation of a conversation, or None. Any message closes it."""
        return self._confirmations.pop(dm, None)

    def set_config_digest(self, dm: str, digest: str) -> None:
        """Store the digest of the staged configuration that a conversation was shown."""
        self._configs[dm] = digest

    def get_config_digest(self, dm: str) -> str | None:
        """Return the digest of the staged configuration that a conversation was last shown, or None."""
        return self._configs.get(dm)

    def set_erasure(self, dm: str, selection: ForgetSelection) -> None:
        """Store the erasure that a conversation was shown, with the digest of its preview."""
        self._erasures[dm] = selection

    def take_erasure(self, dm: str) -> ForgetSelection | None:
        """Remove and return the erasure that a conversation was shown, or None."""
        return self._erasures.pop(dm, None)
