"""Bounded set of ids that drops the oldest. Used by `session_log`."""

MOST = 2_000
"""A repetition comes within moments, or with the log's tail after a crash; never after this many other
ids."""


class RecentIds:
    """The ids that were added last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # A dict preserves insertion order.
        self._ids: dict[str, None] = {}

    def add(self, one: str) -> None:
        """Add an id; drop the oldest id beyond the limit."""
        self._ids[one] = None
        if len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, one: object) -> bool:
        """Return whether the id was added and not dropped yet."""
        return one in self._ids

    def __len__(self) -> int:
        """Return the number of ids in the set."""
        return len(self._ids)
