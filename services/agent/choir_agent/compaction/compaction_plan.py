"""Decision whether a lane's window must be folded, and up to which event. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from choir_agent.working_memory.lane_window import LaneWindow, WindowPiece
from choir_common.lanes import is_edge

CompactionReason = Literal["full", "asked", "overflow"]
"""`full`: the window is full. `asked`: user or model requested it. `overflow`: the provider refused the
prompt as too long."""

HARD_COUNT = 2
HARD_SHARE = 0.9
MIN_SIZE = 2_000


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """Limits of a lane's window."""

    events: int
    size: int
    """Bytes of compactable content: a share of the context window without its fixed parts."""
    hard_size: int
    """Bytes beyond which a prompt would probably not fit."""


def window_limits(
    event_window: int, threshold: float, context_size: int, fixed_size: int
) -> WindowLimits:
    """Return the limits; `context_size` and `fixed_size` (what is never compacted) are in bytes."""
    room = max(MIN_SIZE, context_size - fixed_size)
    hard = max(MIN_SIZE, int(context_size * HARD_SHARE) - fixed_size)
    return WindowLimits(event_window, max(MIN_SIZE, int(room * threshold)), hard)


def is_full(window: LaneWindow, limits: WindowLimits) -> bool:
    """Return whether the window exceeds a limit."""
    return window.count > limits.events or window.size > limits.size


def exceeds_hard_limit(window: LaneWindow, limits: WindowLimits, *, in_flight: bool) -> bool:
    """Return whether events must be folded at once, even without a model's summary."""
    # A compaction in flight will reduce the count; the size limit cannot wait for it.
    too_many = window.count > HARD_COUNT * limits.events and not in_flight
    return too_many or window.size > limits.hard_size


def fold_through(window: LaneWindow, limits: WindowLimits, why: CompactionReason) -> int | None:
    """Return the revision up to which the window must be folded, or None if nothing can or needs to be.

    The window shrinks to half at once, so that the prompt's prefix then stays unchanged for long.
    """
    if why == "full" and not is_full(window, limits):
        return None  # before the pieces are measured: this is asked after each event
    usual = list(window.removable_pieces())
    all_pieces = sorted([*usual, *window.last_resort_pieces()], key=lambda piece: piece.last_rev)
    if why == "asked":
        # A job continues from its newest steps.
        return usual[-1].last_rev if usual else None
    if why == "overflow":
        # Only the size matters here; a refusal costs half of the window.
        return _first_enough(all_pieces, window, window.count, window.size // 2)
    goal_count, goal_size = limits.events // 2, limits.size // 2
    through = _first_enough(usual, window, goal_count, goal_size)
    left_count, left_size = _left(usual, window)
    still_bursting = left_count > HARD_COUNT * limits.events or left_size > limits.size
    if is_edge(window.lane) and still_bursting:
        return _first_enough(all_pieces, window, goal_count, goal_size)
    return through


def _first_enough(
    pieces: Iterable[WindowPiece], window: LaneWindow, goal_count: int, goal_size: int
) -> int | None:
    """Return the end of the shortest prefix of pieces that reaches the goal if removed, or of all."""
    through: int | None = None
    count, size = window.count, window.size
    for piece in pieces:
        if count <= goal_count and size <= goal_size:
            break
        through = max(through or 0, piece.last_rev)
        count, size = count - piece.count, size - piece.size
    return through


def _left(pieces: Iterable[WindowPiece], window: LaneWindow) -> tuple[int, int]:
    count, size = window.count, window.size
    for piece in pieces:
        count, size = count - piece.count, size - piece.size
    return count, size
