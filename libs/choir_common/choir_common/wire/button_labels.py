"""Labels of buttons that a messenger without buttons also offers as emojis."""

from choir_common.i18n import LANGUAGES, _, translate

APPROVE, ONCE, REJECT = _("Approve"), _("Once"), _("Reject")


def in_all_languages(label: str) -> frozenset[str]:
    """Return a label in each language."""
    return frozenset(translate(label, language) for language in LANGUAGES)
