"""Interpretation of Telegram's errors: the wait that a rate limit asks for, and a text for operators."""

from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError


def retry_after_s(error: RetryAfter) -> float:
    """Return the seconds of a rate limit; the type depends on the version of the library."""
    pause = error.retry_after
    return float(pause) if isinstance(pause, int) else pause.total_seconds()


def describe_error(error: TelegramError) -> str:
    """Return the reason why no updates arrive, as a text for operators."""
    if isinstance(error, InvalidToken):
        return "Telegram refuses the bot's token; check it in secrets.json."
    if isinstance(error, Conflict):
        return f"Telegram serves somebody else with this bot's token: {error.message}"
    return f"Telegram cannot be reached ({type(error).__name__})."
