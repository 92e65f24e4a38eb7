"""WhatsApp's formatting on a screen: `*bold*`, `_italic_`, `~strike~`, code, quotations. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = re.compile("```(.+?)```", re.DOTALL)
INLINE = re.compile("`([^`\n]+)`")
PAIR = re.compile(r"(?<![^\W_])(?P<mark>[*_~])(?=\S)(?P<text>[^\n]*?\S)(?P=mark)(?![^\W_])")
STYLES = {"*": "bold", "_": "italic", "~": "strike"}


@dataclass(frozen=True, slots=True)
class ScreenText:
    """Characters with the same styles."""

    text: str
    styles: frozenset[str] = frozenset()


def show(message: str) -> list[ScreenText]:
    """Return what a user sees of a message."""
    return [piece for piece in _blocks(message) if piece.text]


def visible_text(message: str) -> str:
    """Return the visible characters of a message."""
    return "".join(piece.text for piece in show(message))


def _blocks(message: str) -> Iterator[ScreenText]:
    at = 0
    for block in BLOCK.finditer(message):
        yield from _lines(message[at : block.start()])
        yield ScreenText(block[1], frozenset({"code"}))
        at = block.end()
    yield from _lines(message[at:])


def _lines(text: str) -> Iterator[ScreenText]:
    for line in text.splitlines(keepends=True):
        is_quote = line.startswith("> ")
        outer = frozenset({"quote"}) if is_quote else frozenset[str]()
        yield from _inline(line.removeprefix("> ") if is_quote else line, outer)


def _inline(line: str, outer: frozenset[str]) -> Iterator[ScreenText]:
    at = 0
    for code in INLINE.finditer(line):
        yield from _marks(line[at : code.start()], outer)
        yield ScreenText(code[1], outer | {"code"})
        at = code.end()
    yield from _marks(line[at:], outer)


def _marks(text: str, outer: frozenset[str]) -> Iterator[ScreenText]:
    pair = PAIR.search(text)
    if pair is None:
        yield ScreenText(text, outer)
        return
    yield ScreenText(text[: pair.start()], outer)
    yield from _marks(pair["text"], outer | {STYLES[pair["mark"]]})
    yield from _marks(text[pair.end() :], outer)
