"""Parse URLs, and derive safe file names from untrusted response headers. Pure.

Used by tab.py, page_actions.py and downloads.py.
"""

import mimetypes
import re
from email.message import Message
from urllib.parse import unquote, urlsplit

MAX_CHARS = 80
_UNSAFE = re.compile(r"[^\w.-]+")


def url_origin(url: str) -> str:
    """Return scheme, host and port of a URL; empty if it has no host."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def host_name(url: str) -> str:
    """Return a URL's host as a part of a file name."""
    return safe_file_name(urlsplit(url).hostname or "page")


def download_name(url: str, disposition: str, mime: str) -> str:
    """Return a download's file name: the server's, else the URL's, with an extension."""
    header = Message()
    header["content-disposition"] = disposition.encode("latin-1", "replace").decode(
        "utf-8", "replace"
    )
    name = header.get_filename() or unquote(urlsplit(url).path.rpartition("/")[2])
    safe = safe_file_name(name.replace("\\", "/").rpartition("/")[2])
    if "." not in safe:
        safe += mimetypes.guess_extension(mime) or ""
    return safe


def safe_file_name(name: str) -> str:
    """Return a name with only letters, digits, dots, dashes and underscores, not hidden, at most 80 long."""
    safe = _UNSAFE.sub("_", name).strip("._-") or "file"
    if len(safe) <= MAX_CHARS:
        return safe
    stem, dot, ending = safe.rpartition(".")
    if not dot or len(ending) > 10:
        return safe[:MAX_CHARS]
    return f"{stem[: MAX_CHARS - len(ending) - 1]}.{ending}"
