"""Mark of sentences that the catalogues translate; who shows one to a person does so.

It takes the place of `choir_common.i18n`, because programs start with this package alone.
"""


def _(text: str) -> str:
    """Return the text; `scripts.translations` collects it."""
    return text
