"""Give a stranger's file a name that is safe in a workspace, and its own. Pure; called by `fetch`."""

import re
import unicodedata

MOST = 120
_UNSAFE = re.compile(r"[^\w.+-]+")
_DOTS = re.compile(r"\.{2,}")


def safe_name(name: str, inbox_id: str, number: int) -> str:
    """Return a name of letters, digits, `.`, `_`, `+` and `-` that no other message's file has."""
    plain = unicodedata.normalize("NFC", name.replace("\\", "/").rsplit("/", 1)[-1])
    plain = _DOTS.sub(".", _UNSAFE.sub("_", plain)).strip("._-")
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > 16:
        stem, ending = plain, ""
    prefix = f"{inbox_id.removeprefix('in_')[-12:]}-{number}-"
    room = MOST - len(prefix.encode()) - len(ending.encode()) - 1
    stem = stem.encode()[: max(1, room)].decode(errors="ignore") or "file"
    return f"{prefix}{stem}.{ending}" if ending else f"{prefix}{stem}"
