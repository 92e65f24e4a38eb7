"""Quotation of text that is data for a model, not an instruction."""


def quote(text: str) -> str:
    """Return a text as a quotation, with a mark on every line."""
    return "\n".join(f"> {line}" for line in text.splitlines())
