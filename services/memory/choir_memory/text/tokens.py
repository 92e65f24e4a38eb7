"""Tokenize text for search: normalised, lightly stemmed words, and pairs of characters for CJK.

Documents (`tsvector`) and queries (`query_terms`) must give the same tokens. Postgres' own parsers are not
used: they do not support Chinese, and differ between builds.
"""

import re
import unicodedata
from collections.abc import Iterator

# Scripts written without spaces: Thai to Myanmar, Khmer, kana, Han, Hangul, and the Han extensions.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
_KANA_MARKS = "\u3099\u309a"
_UNSPACED_START = re.compile(rf"[{_UNSPACED}]")

MAX_TOKEN = 64
"""Characters; longer tokens are base64 or hashes, which no query contains."""
MAX_POSITION = 16_383
"""The largest position that a tsvector can store; later tokens get this one."""
MAX_POSITIONS = 255
"""Maximum positions of one word in a tsvector."""
MAX_DISTINCT = 50_000
"""Distinct words of one document; a tsvector is limited to 1 MB, which 100,000 CJK characters nearly
reach."""


def document_tokens(text: str) -> list[str]:
    """Return the tokens of a stored text in order; CJK yields single characters and pairs."""
    return [token for run in _runs(text) for token in _of_run(run, singles=True)]


def query_terms(text: str) -> list[str]:
    """Return the distinct search tokens of a query; a single CJK character is a token of its own."""
    tokens = (token for run in _runs(text) for token in _of_run(run, singles=len(run) == 1))
    return list(dict.fromkeys(tokens))


def is_pair(term: str) -> bool:
    """Return whether a search token is a pair of characters of a script without spaces."""
    return len(term) == 2 and _UNSPACED_START.match(term) is not None


def tsvector(tokens: list[str]) -> str:
    """Return tokens in Postgres' text form of a tsvector, with positions: `'word':1,5 'other':2`."""
    places: dict[str, list[int]] = {}
    for position, token in enumerate(tokens, 1):
        if token not in places and len(places) == MAX_DISTINCT:
            continue
        positions = places.setdefault(token, [])
        if len(positions) < MAX_POSITIONS:
            positions.append(min(position, MAX_POSITION))
    return " ".join(
        f"'{token}':{','.join(map(str, dict.fromkeys(positions)))}"
        for token, positions in places.items()
    )


def stem(word: str) -> str:
    """Remove the most common English endings, so that `painted` matches `paints` and `painting`.

    Deliberately light: a stronger stemmer needs to know the language, and merges words that differ.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _singular(word)
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        if word.endswith(ending) and _has_stem(word, ending):
            word = _undouble(word.removesuffix(ending))
            break
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}i"
    # without the final vowel `create` and `creat(ing)` match
    return word.removesuffix("e") if len(word) > 3 else word


def _runs(text: str) -> list[str]:
    normalised = text.casefold() if text.isascii() else _without_accents(text)
    runs: list[str] = _RUNS.findall(_POSSESSIVE.sub("", normalised))
    return runs


def _without_accents(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text).casefold()
    # kana voicing marks are kept, and NFC joins them and Hangul again
    bare = "".join(c for c in folded if c in _KANA_MARKS or not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare)


def _of_run(run: str, *, singles: bool) -> Iterator[str]:
    if run.isascii() or not _UNSPACED_START.match(run):
        yield stem(run[:MAX_TOKEN])
        return
    if singles:
        yield from run
    yield from (run[at : at + 2] for at in range(len(run) - 1))


def _singular(word: str) -> str:
    if word.endswith(("ss", "us", "is")) or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}i" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]


def _has_stem(word: str, ending: str) -> bool:
    stem = word.removesuffix(ending)
    return len(stem) >= 3 and any(char in "aeiouy" for char in stem)


def _undouble(word: str) -> str:
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word
