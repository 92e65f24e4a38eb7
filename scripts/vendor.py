"""Third-party files of the web page and of its tests, from npm packages with pinned hashes.

`python -m scripts.vendor` downloads the packages again, compares them with the hashes below and writes the
files. Used by `make pins`. Nobody else needs npm: the files are in the repository. Exits 3 if the registry
cannot be reached. To update one, change its version and its hash: `npm view NAME dist.integrity` prints it.
"""

import base64
import hashlib
import io
import re
import sys
import tarfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
WEB = "services/gateway/choir_gateway/web/static/vendor"
TESTS = "tests/support/axe"
REGISTRY = "https://registry.npmjs.org"
EXIT_UNREACHABLE = 3
TIMEOUT_S = 60
LOCK = ROOT / "scripts" / "vendor.sha256"
SOURCE_MAP = re.compile(rb"//# sourceMappingURL=\S*\s*$")
FONTS = (
    *("AMS-Regular", "Caligraphic-Bold", "Caligraphic-Regular", "Fraktur-Bold", "Fraktur-Regular"),
    *("Main-Bold", "Main-BoldItalic", "Main-Italic", "Main-Regular", "Math-BoldItalic"),
    *("Math-Italic", "SansSerif-Bold", "SansSerif-Italic", "SansSerif-Regular", "Script-Regular"),
    *("Size1-Regular", "Size2-Regular", "Size3-Regular", "Size4-Regular", "Typewriter-Regular"),
)
# Browsers resolve no bare names without an import map, which the content security policy does not allow.
IMPORTS = {
    b'"preact/hooks"': b'"./preact-hooks.js"',
    b'"preact"': b'"./preact.js"',
    b'"@preact/signals-core"': b'"./signals-core.js"',
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package of npm, and the files that are copied from it."""

    name: str
    version: str
    license: str
    sha512: str
    """Of the archive, in base64, as the registry states it."""
    files: Mapping[str, str]
    """The path in the repository of each path in the package."""
    replaced: Mapping[bytes, bytes] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Return the address of the archive."""
        file = self.name.rpartition("/")[2]
        return f"{REGISTRY}/{self.name}/-/{file}-{self.version}.tgz"

    @property
    def is_served(self) -> bool:
        """Return whether its files are part of the web page, and not only of its tests."""
        return any(path.startswith(WEB) for path in self.files.values())

    def extract(self, archive: bytes) -> dict[str, bytes]:
        """Return the files by their path in the repository; raises ValueError for a wrong hash."""
        if base64.b64encode(hashlib.sha512(archive).digest()).decode() != self.sha512:
            raise ValueError(f"{self.url} does not have the pinned hash")
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            return {
                target: self._adapt(target, _read(members, f"package/{source}"))
                for source, target in self.files.items()
            }

    def _adapt(self, target: str, content: bytes) -> bytes:
        if not target.endswith(".js"):
            return content
        for old, new in self.replaced.items():
            content = content.replace(old, new)
        return SOURCE_MAP.sub(b"", content)


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "MIT",
        "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        {
            "dist/preact.mjs": f"{WEB}/preact.js",
            "hooks/dist/hooks.mjs": f"{WEB}/preact-hooks.js",
            "LICENSE": f"{WEB}/licenses/preact.txt",
        },
        IMPORTS,
    ),
    Package(
        "htm",
        "3.1.1",
        "Apache-2.0",
        "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.module.js": f"{WEB}/htm.js", "LICENSE": f"{WEB}/licenses/htm.txt"},
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        "vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        {
            "dist/signals-core.module.js": f"{WEB}/signals-core.js",
            "LICENSE": f"{WEB}/licenses/signals-core.txt",
        },
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "MIT",
        "Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        {"dist/signals.module.js": f"{WEB}/signals.js", "LICENSE": f"{WEB}/licenses/signals.txt"},
        IMPORTS,
    ),
    Package(
        "markdown-it",
        "15.0.3",
        "MIT",
        "+Az7Ojz3iRGu8KYMvJ6xVhvrxP3eE+vEtJX75Ow88XBpcQNV/0lGX5ZynIIBftREo4DC2jsveAMDaeltmm8QvQ==",
        {
            "dist/browser/markdown-it.umd.min.js": f"{WEB}/markdown-it.js",
            "LICENSE": f"{WEB}/licenses/markdown-it.txt",
        },
    ),
    Package(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "BSD-3-Clause",
        "KvOKXODaiFmId9xaq3xc5xCL66wVLUuOngDbO9B/kewbFTqdGbn2nJxNhN3H5R1cgDTVj6R8vH0zgiNDEGjpDw==",
        {
            "es/highlight.min.js": f"{WEB}/highlight.js",
            "LICENSE": f"{WEB}/licenses/highlight.js.txt",
        },
    ),
    Package(
        "katex",
        "0.19.1",
        "MIT",
        "jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA==",
        {
            "dist/katex.min.js": f"{WEB}/katex/katex.js",
            "dist/katex.min.css": f"{WEB}/katex/katex.css",
            "LICENSE": f"{WEB}/licenses/katex.txt",
            **{
                f"dist/fonts/KaTeX_{font}.woff2": f"{WEB}/katex/fonts/KaTeX_{font}.woff2"
                for font in FONTS
            },
        },
    ),
    Package(
        "axe-core",
        "4.14.1",
        "MPL-2.0",
        "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        {"axe.min.js": f"{TESTS}/axe.min.js", "LICENSE": f"{TESTS}/LICENSE"},
    ),
)


def file_hashes(root: Path = ROOT) -> dict[str, str]:
    """Return the SHA-256 of every vendored file in the repository."""
    return {
        path: hashlib.sha256((root / path).read_bytes()).hexdigest()
        for package in PACKAGES
        for path in package.files.values()
    }


def lock_text(hashes: Mapping[str, str]) -> str:
    """Return the content of the lock file, in the format of sha256sum."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(hashes.items()))


def refresh() -> None:
    """Download all packages and write their files; raises OSError or ValueError."""
    for package in PACKAGES:
        with urllib.request.urlopen(package.url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - https
            archive = answer.read()
        for path, content in package.extract(archive).items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_bytes(content)
    LOCK.write_text(lock_text(file_hashes()))


def main() -> int:
    """Write the files again; return the exit code."""
    try:
        refresh()
    except OSError as error:
        print(f"The npm registry cannot be reached: {error}", file=sys.stderr)
        return EXIT_UNREACHABLE
    print(f"{len(file_hashes())} files of {len(PACKAGES)} packages are current.")
    return 0


def _read(members: tarfile.TarFile, name: str) -> bytes:
    file = members.extractfile(name)
    if file is None:
        raise ValueError(f"the package has no file {name}")
    with file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main())
