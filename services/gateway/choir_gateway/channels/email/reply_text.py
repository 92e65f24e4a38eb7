"""The text that a user wrote in a mail: without quoted history, attribution lines and signature. Pure.

Mail programs put the earlier mail below or above the reply, or the user answers between its lines. What the
user wrote is kept in all three cases; a quotation that the user answered below is kept to its last lines.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_CONTEXT_LINES = 2
"""Lines kept of a quotation that is answered below it."""
MAX_ATTRIBUTION_LINES = 3
MAX_SIGNATURE_LINES = 15

_QUOTE = re.compile(r"\s*>")
_SIGNATURE = re.compile(r"--\s?")
_DEVICE = re.compile(
    r"(?:sent from my|sent from outlook|get outlook for|von meinem .* gesendet|gesendet mit|envoyé de mon"
    r"|enviado desde mi|inviato da|verzonden vanaf mijn)\b.{0,60}",
    re.IGNORECASE,
)
_WROTE = re.compile(
    r"\b(?:wrote|schrieb|schreef|skrev|kirjoitti|napisał\(?a?\)?|написал\(?а?\)?|scritto|escreveu)\b|a écrit"
    r"|escribió|写道|書きました|@",
    re.IGNORECASE,
)
_HISTORY = re.compile(
    r"[-_]{5,}\s*(?:original message|original-nachricht|ursprüngliche nachricht|message d'origine"
    r"|mensaje original|messaggio originale|oorspronkelijk bericht)\s*[-_]{5,}|_{20,}",
    re.IGNORECASE,
)
_HEADER_LINE = re.compile(
    r"\*?(?:from|von|de|da|van|sent|gesendet|envoyé|enviado|inviato|verzonden|date|datum|fecha|data|to|an|à"
    r"|para|a|aan|cc|subject|betreff|objet|asunto|oggetto|onderwerp)\s?:\*?\s?\S.*",
    re.IGNORECASE,
)
HISTORY_HEADERS = 3
"""So many header lines in a row begin the copy of an earlier mail."""


@dataclass(frozen=True, slots=True)
class WrittenText:
    """What a user wrote."""

    text: str
    """With the last lines of each quotation that is answered below it."""
    own: str
    """Without any quotation."""
    quoted: str
    """The first quotation, without its marks."""


@dataclass(slots=True)
class _Block:
    is_quote: bool
    lines: list[str] = field(default_factory=list)


def extract_reply(text: str) -> WrittenText:
    """Return the new part of a reply; the whole text if nothing would remain."""
    lines = _before_signature(_before_history(text.split("\n")))
    blocks = list(_blocks(lines))
    own = _join(block.lines for block in blocks if not block.is_quote)
    quoted = next((block.lines for block in blocks if block.is_quote), [])
    if not own:
        return WrittenText(text.strip(), text.strip(), "")
    parts: list[Sequence[str]] = []
    last = max(number for number, block in enumerate(blocks) if not block.is_quote)
    for block in blocks[: last + 1]:
        parts.append(block.lines[-MAX_CONTEXT_LINES:] if block.is_quote else block.lines)
    # A reply below the whole mail is not an answer to its last lines.
    is_between = any(not block.is_quote for block in blocks[:last])
    return WrittenText(_join(parts) if is_between else own, own, _unquoted(quoted))


def cut_signature(text: str) -> str:
    """Return a text that is no reply without its signature."""
    return "\n".join(_before_signature(text.split("\n"))).strip() or text.strip()


def _before_history(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines before a copy of an earlier mail that is not marked line by line."""
    for number, line in enumerate(lines):
        if _HISTORY.fullmatch(line.strip()):
            return lines[:number]
        following = [it.strip() for it in lines[number : number + HISTORY_HEADERS]]
        if len(following) == HISTORY_HEADERS and all(map(_HEADER_LINE.fullmatch, following)):
            return lines[:number]
    return lines


def _before_signature(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines without signatures; one above quotations ends at them."""
    remaining: list[str] = []
    until = 0
    for number, line in enumerate(lines):
        if number >= until and (_SIGNATURE.fullmatch(line) or _DEVICE.fullmatch(line.strip())):
            end = number + 1
            while end < len(lines) and not _QUOTE.match(lines[end]):
                end += 1
            # A longer text after a line of dashes is not a signature.
            until = end if end - number <= MAX_SIGNATURE_LINES else 0
        if number >= until:
            remaining.append(line)
    return remaining


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Yield quotations and the text between them, without attribution lines and blank blocks."""
    blocks: list[_Block] = []
    for line in lines:
        is_quote = bool(_QUOTE.match(line))
        if not blocks or (blocks[-1].is_quote != is_quote and (is_quote or line.strip())):
            blocks.append(_Block(is_quote))
        blocks[-1].lines.append(line)
    for number, block in enumerate(blocks):
        if not block.is_quote and number + 1 < len(blocks):
            block.lines = _without_attribution(block.lines)
        while block.lines and not block.lines[-1].strip():
            block.lines.pop()
        if any(line.strip() for line in block.lines):
            yield block


def _without_attribution(lines: list[str]) -> list[str]:
    """Remove `On Tuesday Ann wrote:` from the end, which may be broken into several lines."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    for count in range(1, MAX_ATTRIBUTION_LINES + 1):
        start = end - count
        if start < 0 or not lines[start].strip():
            break
        sentence = " ".join(line.strip() for line in lines[start:end])
        begins = start == 0 or not lines[start - 1].strip()
        if sentence.endswith((":", "：")) and _WROTE.search(sentence) and begins:
            return lines[:start]
    return lines


def _join(parts: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(lines).strip("\n").rstrip() for lines in parts).strip()


def _unquoted(lines: Sequence[str]) -> str:
    return "\n".join(re.sub(r"^\s*>\s?", "", line) for line in lines).strip()
