"""The files of the web page, with their types, tags and compressed forms.

All files together have one digest, which is part of their addresses. So browsers need not ask for them again,
and modules that import each other by relative paths always have the same version. The modules of the first
load are one file, see `linker`.
"""

import gzip
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from choir_common.errors import NotFound
from choir_common.i18n import _
from choir_gateway.web.linker import link_modules

STATIC = Path(__file__).parent / "static"
# The user guides: of the container image, or of the repository from which this package is installed.
DOCS = (Path(sys.prefix) / "share" / "choir" / "docs", Path(__file__).parents[4] / "docs")
PAGE = "index.html"
DIGEST_LENGTH = 16
PLACEHOLDER = b"{{assets}}"
WORKER = "service-worker.js"
WORKER_TEXTS = b'"{{texts}}"'
WORKER_KEYS = ("notification.message", "notification.request")
ENTRY = "app/main.js"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}
COMPRESSED = (".html", ".js", ".css", ".json", ".webmanifest", ".svg", ".txt", ".md")


@dataclass(frozen=True)
class Asset:
    """A file of the web page."""

    path: str
    content: bytes

    @property
    def media_type(self) -> str:
        """Return the value of Content-Type."""
        return MEDIA_TYPES[Path(self.path).suffix]

    @cached_property
    def tag(self) -> str:
        """Return the value of ETag."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:DIGEST_LENGTH]}"'

    @cached_property
    def compressed(self) -> bytes | None:
        """Return the content in gzip; None for types that are compressed already."""
        if Path(self.path).suffix not in COMPRESSED:
            return None
        return gzip.compress(self.content, 9, mtime=0)


class WebAssets:
    """All files of the web page and the guides that it shows, read once."""

    def __init__(self, root: Path = STATIC, docs: Sequence[Path] = DOCS) -> None:
        """`docs` are the folders in which the guides may be; the first one that exists has them."""
        self._root = root
        self._docs = docs

    @cached_property
    def digest(self) -> str:
        """Return the digest of all files, which is part of their addresses."""
        digest = hashlib.sha256()
        for path, content in sorted(self._contents.items()):
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()[:DIGEST_LENGTH]

    @cached_property
    def page(self) -> Asset:
        """Return the page itself, with the addresses of its files."""
        base = f"assets/{self.digest}"
        return Asset(PAGE, self._contents[PAGE].replace(PLACEHOLDER, base.encode()))

    @cached_property
    def service_worker(self) -> Asset:
        """Return the script that shows notifications, with its texts: it has no page to take them from."""
        texts = {}
        for path, content in self._contents.items():
            if path.startswith("locales/"):
                catalogue = json.loads(content)
                texts[Path(path).stem] = {key: catalogue[key] for key in WORKER_KEYS}
        script = self._contents[WORKER].replace(WORKER_TEXTS, json.dumps(texts).encode())
        return Asset(WORKER, script)

    def find(self, path: str) -> Asset:
        """Return a file; raises NotFound."""
        asset = self._assets.get(path)
        if asset is None:
            raise NotFound(_("The web page has no such file."))
        return asset

    @cached_property
    def _contents(self) -> Mapping[str, bytes]:
        files = {
            path.relative_to(self._root).as_posix(): path
            for path in sorted(self._root.rglob("*"))
            if path.suffix in MEDIA_TYPES
        }
        folder = next((folder for folder in self._docs if folder.is_dir()), None)
        if folder is not None:
            files |= {f"docs/{path.name}": path for path in sorted(folder.glob("*.md"))}
        contents = {name: path.read_bytes() for name, path in files.items()}
        return link_modules(contents, ENTRY)

    @cached_property
    def _assets(self) -> Mapping[str, Asset]:
        return {
            path: Asset(path, content)
            for path, content in self._contents.items()
            if path not in (PAGE, WORKER)
        }
