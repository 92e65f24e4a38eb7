"""A bounded set of ids that forgets the oldest. Used by `session_log`."""

MOST = 2_000
"""A repetition comes within moments, or with the tail of the log after a crash: never this late."""


class RecentIds:
    """The newest ids that were added."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # a dict keeps the order of insertion
        self._ids: dict[str, None] = {}

    def add(self, one: str) -> None:
        """Add an id; drop the oldest one beyond the bound."""
        self._ids[one] = None
        if len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, one: object) -> bool:
        """Tell whether the id was added and is not forgotten yet."""
        return one in self._ids

    def __len__(self) -> int:
        """Return how many ids are kept."""
        return len(self._ids)
