"""Decoding of text files, in the service itself: bytes are decoded, nothing is parsed."""

import codecs

from choir_files.errors import UnreadableFile

MAX_CHARACTERS = 5_000_000
"""Characters of a file's text: a shelf of books, about 4,000 passages."""
MAX_BYTES = 4 * MAX_CHARACTERS
_UNICODE_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode_text(content: bytes, charset: str | None = None) -> str:
    """Return the text of UTF-8 bytes, or of those in another character set; raises UnreadableFile."""
    marked = next((name for mark, name in _UNICODE_MARKS if content.startswith(mark)), None)
    try:
        # a browser shows the rest of a page that has a wrong byte, too
        text = content.decode(marked or charset or "utf-8", "replace" if charset else "strict")
    except UnicodeDecodeError:
        raise UnreadableFile("is not UTF-8 text; convert it first") from None
    if "\x00" in text[:8_192]:
        raise UnreadableFile("is not text, whatever its name says")
    return text


def check_text(text: str) -> str:
    """Return a text as it can be stored; raises UnreadableFile if it is too long or blank."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableFile(f"has more than {MAX_CHARACTERS:,} characters of text")
    if not text.strip("\x00 \t\r\n"):
        raise UnreadableFile("contains no text")
    # lone surrogates cannot be stored
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
