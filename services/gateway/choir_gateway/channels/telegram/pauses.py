"""Read Telegram's errors: how long it wants to be left alone, and what is wrong in words."""

from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError


def pause_of(error: RetryAfter) -> float:
    """Return the seconds of a rate limit, whichever type this version of the library gives."""
    pause = error.retry_after
    return float(pause) if isinstance(pause, int) else pause.total_seconds()


def explain(error: TelegramError) -> str:
    """Return why no updates come, for the operator."""
    if isinstance(error, InvalidToken):
        return "Telegram refuses the bot's token; check it in secrets.json."
    if isinstance(error, Conflict):
        return f"Telegram serves somebody else with this bot's token: {error.message}"
    return f"Telegram cannot be reached ({type(error).__name__})."
