"""Escaping of characters that control a terminal, change the writing direction or are invisible.

Pure. Used for choirctl's output, for what a person sees before a decision, and for service logs. See
docs/design/security.md.
"""

import re

# Control, format, separator and surrogate characters, then fillers and other characters without width.
_CONTROLS = "\x00-\x1f\x7f-\x9f"
_FORMATS = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0"
_HIDDEN = re.compile(f"[{_CONTROLS}{_FORMATS}{_BLANKS}]")
_JOINERS = "\u200c\u200d"
_LAST_ASCII = "\x7f"


def escape_hidden(text: str, *, keep: str = "\n\t", joiners: bool = True) -> str:
    """Return `text` with every hidden character written as `<U+001B>`, except those in `keep`.

    With `joiners`, a joiner between two visible non-ASCII characters stays: emoji and several scripts need
    it.
    """

    def spell(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        if joiners and character in _JOINERS and _is_between_visible(text, match.start()):
            return character
        return f"<U+{ord(character):04X}>"

    return _HIDDEN.sub(spell, text)


def escape_json(text: str) -> str:
    r"""Return a JSON text with every hidden character escaped as `\uXXXX`; its meaning is unchanged.

    Tabs and line ends between the tokens stay; JSON allows them nowhere else.
    """
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in "\n\r\t":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _is_between_visible(text: str, at: int) -> bool:
    adjacent = text[max(0, at - 1) : at] + text[at + 1 : at + 2]
    return len(adjacent) == 2 and all(c > _LAST_ASCII and not _HIDDEN.match(c) for c in adjacent)
