"""Read how long Telegram wants to be left alone. Used by polling.py and sending.py."""

from telegram.error import RetryAfter


def pause_of(error: RetryAfter) -> float:
    """Return the seconds of a rate limit, whichever type this version of the library gives."""
    pause = error.retry_after
    return float(pause) if isinstance(pause, int) else pause.total_seconds()
