"""Sanitization of the names of received files for use in a workspace. Pure."""

import re
import unicodedata

MOST_BYTES = 100
LONGEST_ENDING = 16
_UNSAFE = re.compile(r"[^\w.+-]+")
_DOTS = re.compile(r"\.{2,}")


def safe_name(name: str) -> str:
    """Return a name of letters, digits, `.`, `_`, `+` and `-`: no path, not hidden, at most 100 bytes."""
    plain = unicodedata.normalize("NFC", name.replace("\\", "/").rsplit("/", 1)[-1])
    plain = _DOTS.sub(".", _UNSAFE.sub("_", plain)).strip("._-")
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > LONGEST_ENDING:
        stem, dot, ending = plain, "", ""
    room = MOST_BYTES - len((dot + ending).encode())
    return f"{stem.encode()[:room].decode(errors='ignore') or 'file'}{dot}{ending}"
