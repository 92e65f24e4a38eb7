"""Text of an answer as it is spoken: Markdown without its marks. Pure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

CODE = "The code is in the text."


def render_spoken_text(markdown: str) -> str:
    """Return the words of a Markdown text, one paragraph, heading or item per line."""
    # imported here: an agent that never speaks does not need it
    from markdown_it import MarkdownIt  # noqa: PLC0415

    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    return "\n".join(line for line in _lines(tokens) if line)


def _lines(tokens: "list[Token]") -> Iterator[str]:
    for token in tokens:
        if token.type in ("fence", "code_block"):
            yield CODE
        elif token.type == "inline":
            yield "".join(map(_word, token.children or ())).strip()


def _word(token: "Token") -> str:
    match token.type:
        case "text" | "code_inline" | "image":
            return token.content
        case "softbreak" | "hardbreak":
            return " "
        case _:
            return ""
