"""Escaping of characters that control a terminal, change the writing direction, are invisible or deceive.

Pure. Used for choirctl's output, for what a person sees before a decision, and for service logs. See
docs/design/security.md.
"""

import re
import unicodedata

from choir_common.look_alikes import spell_look_alikes

# Control, format, separator and surrogate characters, then fillers and other characters without width.
_CONTROLS = "\x00-\x1f\x7f-\x9f"
_FORMATS = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0"
# Symbols without a glyph: the empty Braille pattern, a filler of Khitan, a note without a head.
_BLANKS += "\u2800\U00016fe4\U0001d159"
_EMOJI_SELECTORS = "\ufe0e\ufe0f"
_HIDDEN = re.compile(f"[{_CONTROLS}{_FORMATS}{_BLANKS}]")
_JOINERS = "\u200c\u200d"
_LAST_ASCII = "\x7f"
_NOT_PLAIN = re.compile("[^\x20-\x7e\t]")
# An escape of JSON is no letter of the word that follows it.
_WORD = re.compile('\\\\[nrtbf"\\\\/]|[\\w\u0300-\u036f]+')
_LOOK_ALIKE_SCRIPTS = frozenset(
    {
        "LATIN",
        "CYRILLIC",
        "GREEK",
        "ARMENIAN",
        "CHEROKEE",
        "COPTIC",
        "LISU",
        "FULLWIDTH",
        "MATHEMATICAL",
    }
)
"""Scripts with letters that look like those of another, as they begin the names of characters."""


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


def spell_uncertain(text: str) -> str:
    """Return `text` with every character written as `<U+200B>` that a person cannot be sure to see.

    These are all characters that are invisible or blank, except space and tab, those that differ between
    fonts (private and unassigned ones), letters of another script inside a word, and words that could
    pass for Latin ones.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _WORD.sub(_spell_mixed, spell_look_alikes(text, _spell_letter))
    return _NOT_PLAIN.sub(_spell_unseen, text)


def _spell_letter(character: str) -> str:
    return character if character.isascii() else f"<U+{ord(character):04X}>"


def _spell_unseen(match: re.Match[str]) -> str:
    character = match[0]
    category = unicodedata.category(character)
    is_blank = category[0] in "CZ" or character in _EMOJI_SELECTORS or _HIDDEN.match(character)
    return f"<U+{ord(character):04X}>" if is_blank else character


def _spell_mixed(match: re.Match[str]) -> str:
    word = match[0]
    scripts = dict.fromkeys(filter(None, map(_look_alike_script, word)))
    if word.isascii() or len(scripts) < 2:
        return word
    main = "LATIN" if "LATIN" in scripts else next(iter(scripts))
    return "".join(c if _look_alike_script(c) in ("", main) else f"<U+{ord(c):04X}>" for c in word)


def _look_alike_script(character: str) -> str:
    """Return the script of a letter that may look like one of another script, or an empty text."""
    script = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
    return script if script in _LOOK_ALIKE_SCRIPTS else ""


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
