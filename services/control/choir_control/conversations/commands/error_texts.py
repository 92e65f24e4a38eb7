"""What a person reads about an error: its message, or its kind with the words of the error. Pure."""

from choir_common.errors import ChoirError
from choir_common.i18n import ErrorMessage, Message, _

KINDS: dict[str, Message] = {
    "bad_input": _("The input is not valid."),
    "forbidden": _("This is not allowed."),
    "not_found": _("There is no such thing."),
    "conflict": _("This is not possible now."),
    "too_large": _("This is too large."),
    "too_slow": _("This took too long."),
    "rate_limited": _("There were too many requests; try again later."),
    "unavailable": _("Something that is needed cannot be reached; try again later."),
    "outcome_unknown": _("It is not known whether this was done."),
    "deadline_exceeded": _("This took too long."),
    "work_failed": _("This has failed."),
}
"""By the code of the error."""
OTHER = _("An error has occurred.")


def error_text(error: ChoirError) -> str:
    """Return the text of an error for a person.

    Many errors have no translation: other languages then show its kind, and its own words unchanged.
    """
    if isinstance(error.message, Message):
        return error.message
    return ErrorMessage(error.message, KINDS.get(error.code, OTHER))
