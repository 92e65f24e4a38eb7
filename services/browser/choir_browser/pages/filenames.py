"""Read addresses, and name files after what a stranger's server says of them: pure.

Used by tab.py, pictures.py and fetching.py.
"""

import mimetypes
import re
from email.message import Message
from urllib.parse import unquote, urlsplit

MAX_CHARS = 80
_UNSAFE = re.compile(r"[^\w.-]+")


def origin_of(url: str) -> str:
    """Give scheme, host and port of an address; empty for none."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def host_of(url: str) -> str:
    """Give an address's host as part of a file's name."""
    return harmless(urlsplit(url).hostname or "page")


def name_of(url: str, disposition: str, mime: str) -> str:
    """Give the name a download ought to have: the server's, else the address's, with an ending."""
    header = Message()
    header["content-disposition"] = disposition.encode("latin-1", "replace").decode(
        "utf-8", "replace"
    )
    name = header.get_filename() or unquote(urlsplit(url).path.rpartition("/")[2])
    safe = harmless(name.replace("\\", "/").rpartition("/")[2])
    if "." not in safe:
        safe += mimetypes.guess_extension(mime) or ""
    return safe


def harmless(name: str) -> str:
    """Keep letters, digits, dots and dashes, and neither a hidden name nor a long one."""
    safe = _UNSAFE.sub("_", name).strip("._-") or "file"
    if len(safe) <= MAX_CHARS:
        return safe
    stem, dot, ending = safe.rpartition(".")
    if not dot or len(ending) > 10:
        return safe[:MAX_CHARS]
    return f"{stem[: MAX_CHARS - len(ending) - 1]}.{ending}"
