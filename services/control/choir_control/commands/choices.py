"""Remember the numbered list a conversation was last shown, so that `2` means what stood beside it.

Used by `approvals`. In memory: after a restart the list is shown again, and nothing is decided by a number
that was never shown. Bounded by the number of configured conversations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shown:
    """A request as it was shown: a decision holds for this digest."""

    approval_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation was asked which one it means."""

    command: str
    """What its number is then for."""
    last_word: int
    """The newest word said in the conversation when it was asked: a number after a newer one answers that."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A conversation was asked whether it means a command that destroys something."""

    text: str
    """The command as it was typed."""
    last_word: int
    """As for a question: a yes after a newer word answers that."""


@dataclass(slots=True)
class Choices:
    """The newest list of each conversation, and the newest configuration it was shown."""

    _lists: dict[str, tuple[Shown, ...]] = field(default_factory=dict)
    _configs: dict[str, str] = field(default_factory=dict)
    _questions: dict[str, Question] = field(default_factory=dict)
    _confirmations: dict[str, Confirmation] = field(default_factory=dict)

    def show(self, dm: str, items: Sequence[Shown]) -> None:
        """Remember what stands under 1, 2, 3 … in a conversation now."""
        self._lists[dm] = tuple(items)

    def pick(self, dm: str, number: int) -> Shown | None:
        """Return what was shown under a number; none if nothing was."""
        shown = self._lists.get(dm, ())
        return shown[number - 1] if 0 < number <= len(shown) else None

    def ask(self, dm: str, question: Question) -> None:
        """Remember that a conversation was asked which one it means."""
        self._questions[dm] = question

    def take_question(self, dm: str) -> Question | None:
        """Return what a conversation was asked right before; whatever it says now, it is asked no more."""
        return self._questions.pop(dm, None)

    def ask_to_confirm(self, dm: str, confirmation: Confirmation) -> None:
        """Remember that a conversation was asked whether it means a command."""
        self._confirmations[dm] = confirmation

    def take_confirmation(self, dm: str) -> Confirmation | None:
        """Return the command that waits for a yes; whatever is said now, it waits no more."""
        return self._confirmations.pop(dm, None)

    def show_config(self, dm: str, digest: str) -> None:
        """Remember which staged configuration a conversation was shown."""
        self._configs[dm] = digest

    def config_of(self, dm: str) -> str | None:
        """Return the digest of the staged configuration a conversation was shown last."""
        return self._configs.get(dm)
