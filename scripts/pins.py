"""Pins of what Choir downloads beside the packages of uv.lock: uv itself, and third-party images.

`python -m scripts.pins UV` writes scripts/uv.txt and deploy/docker/images.lock again. Exits 3 if a registry
gave no digest; the lines of its images stay as they are. Used by `make pins` and `release`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import httpx2

from scripts.registry import TIMEOUT_S, RegistryError, fetch_digest, locate_image

ROOT = Path(__file__).parent.parent
UV_PIN = "scripts/uv.txt"
IMAGE_LOCK = "deploy/docker/images.lock"
PINNED_FILES = (
    "deploy/docker/Dockerfile",
    "docker-compose.yml",
    "deploy/kubernetes/overlays/production/nats.yaml",
    "deploy/kubernetes/overlays/production/postgres.yaml",
    "deploy/kubernetes/overlays/trial/nats.yaml",
    "deploy/kubernetes/overlays/trial/postgres.yaml",
)
"""The files that name third-party images."""
UNKNOWN = "-"
EXIT_UNREACHABLE = 3
IMAGE = re.compile(r"^( *image(?:Name)?: |FROM )(?P<name>[\w./-]+:[\w.-]+)(?=\s|$)", re.MULTILINE)
OWN_TAG = ":local"


def third_party_images(text: str) -> set[str]:
    """Return the names of the images that a Dockerfile or compose file takes from a registry."""
    names = {match["name"] for match in IMAGE.finditer(text)}
    return {name for name in names if not name.endswith(OWN_TAG)}


def read_image_lock(text: str) -> dict[str, str]:
    """Return the digest of each image in a lock file; `-` if it is unknown."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {row[0]: row[1] for row in rows}


def pin_images(text: str, digests: dict[str, str]) -> str:
    """Return a Dockerfile or compose file whose third-party images are named by tag and digest.

    Raises LookupError for images without a known digest.
    """
    unknown = sorted(
        name for name in third_party_images(text) if digests.get(name, UNKNOWN) == UNKNOWN
    )
    if unknown:
        raise LookupError(f"no digest in {IMAGE_LOCK} for {', '.join(unknown)}")

    def pinned(match: re.Match[str]) -> str:
        digest = digests.get(match["name"])
        return f"{match[0]}@{digest}" if digest else match[0]

    return IMAGE.sub(pinned, text)


def pinned_uv_version(root: Path = ROOT) -> str:
    """Return the version of uv that is installed."""
    match = re.search(r"^uv==(\S+)", (root / UV_PIN).read_text(), re.MULTILINE)
    if match is None:
        raise LookupError(f"{UV_PIN} names no version of uv")
    return match[1]


def refresh_images(root: Path = ROOT, mirror: str = "") -> list[str]:
    """Write the current digests to the lock file; return why images have none, a line for each.

    `mirror` is asked instead of all registries.
    """
    lock = root / IMAGE_LOCK
    comments = [line for line in lock.read_text().splitlines() if line.startswith("#")]
    digests = read_image_lock(lock.read_text())
    texts = [(root / path).read_text() for path in PINNED_FILES]
    names = sorted(set[str]().union(*(third_party_images(text) for text in texts)))
    failures = []
    with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
        for name in names:
            try:
                digests[name] = fetch_digest(client, locate_image(name, mirror))
            except RegistryError as error:
                failures.append(f"{name}: {error}")
    rows = [f"{name} {digests.get(name, UNKNOWN)}" for name in names]
    lock.write_text("\n".join([*comments, *rows]) + "\n")
    return failures


def refresh_uv(uv: str) -> None:
    """Write the hashes of the pinned version of uv."""
    pin = ROOT / UV_PIN
    comments = [line for line in pin.read_text().splitlines() if line.startswith("#")]
    command = [
        uv,
        "pip",
        "compile",
        "--quiet",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "-",
    ]
    done = subprocess.run(
        command, input=f"uv=={pinned_uv_version()}", capture_output=True, text=True, check=True
    )
    pin.write_text("\n".join(comments) + "\n" + done.stdout)


def main() -> int:
    """Refresh both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uv")
    parser.add_argument(
        "--registry", default="", help="address of a registry that has all images, to ask instead"
    )
    given = parser.parse_args()
    refresh_uv(given.uv)
    if failures := refresh_images(mirror=given.registry):
        for line in failures:
            print(f"pins: no digest of {line}", file=sys.stderr)
        print(
            "pins: these lines are unchanged. Run `make pins` where the registries can be reached, or with "
            "REGISTRY=https://HOST, a registry that has all images.",
            file=sys.stderr,
        )
        return EXIT_UNREACHABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
