"""Build a release: a reproducible archive, the wheel, its bill of materials and signed checksums.

`python -m scripts.release VERSION --out DIR --uv UV [--key FILE]` builds the commit that is checked out.
Without a key the checksums are not signed. docs/development/release.md says how to sign and to verify.
"""

import argparse
import base64
import gzip
import hashlib
import importlib.metadata
import io
import json
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scripts.pins import IMAGE_LOCK, PINNED_FILES, UNKNOWN, pin_images, read_image_lock
from scripts.vendor import PACKAGES, Package
from scripts.wheel import build_wheel

NAMESPACE = "choir-release"
"""Namespace of the signatures: a signature made for another purpose is not valid here."""
CHECKSUMS = "SHA256SUMS"
UNKNOWN_LICENSE = "unknown"


def build_release(
    root: Path,
    *,
    version: str,
    out: Path,
    uv: str,
    key: Path | None = None,
    wheels: Sequence[Path] = (),
) -> list[Path]:
    """Write the files of a release of HEAD to `out` and return them; `wheels` are in `out` already.

    Raises LookupError if an image has no digest, CalledProcessError if git, uv or ssh-keygen fails.
    """
    digests = check_images(root)
    out.mkdir(parents=True, exist_ok=True)
    archive = out / f"choir-{version}.tar.gz"
    archive.write_bytes(_archive(root, f"choir-{version}", digests))
    bill = bill_of_materials(root, uv, digests)
    materials = out / f"choir-{version}.cdx.json"
    materials.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    licenses = out / f"choir-{version}-licenses.txt"
    licenses.write_text("".join(f"{line}\n" for line in license_lines(bill)))
    files = [archive, materials, licenses, *wheels]
    sums = out / CHECKSUMS
    sums.write_text("".join(f"{_sha256(file)}  {file.name}\n" for file in files))
    if key is not None:
        sums.with_suffix(".sig").unlink(missing_ok=True)
        sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(sums)]
        subprocess.run(sign, check=True)
        files.append(sums.with_suffix(".sig"))
    return [*files, sums]


def check_images(root: Path) -> dict[str, str]:
    """Return the digest of each image of HEAD. Raises LookupError with all that have none."""
    digests = read_image_lock(_git(root, "show", f"HEAD:{IMAGE_LOCK}").decode())
    # All at once, before a file is written: otherwise only those of the first file are named.
    if unknown := sorted(name for name, digest in digests.items() if digest == UNKNOWN):
        raise LookupError(f"no digest in {IMAGE_LOCK} for {', '.join(unknown)}")
    return digests


def _archive(root: Path, folder: str, digests: dict[str, str]) -> bytes:
    """Return HEAD as tar.gz, with images by digest. The same commit always gives the same bytes."""
    tar = _git(root, "archive", "--format=tar", f"--prefix={folder}/", "HEAD")
    packed, result = io.BytesIO(), io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(tar)) as source,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            body = content.read() if content is not None else b""
            if member.name.removeprefix(f"{folder}/") in PINNED_FILES:
                body = pin_images(body.decode(), digests).encode()
                member.size = len(body)
            target.addfile(member, io.BytesIO(body))
    with gzip.GzipFile(fileobj=result, mode="wb", filename="", mtime=0) as file:
        file.write(packed.getvalue())
    return result.getvalue()


def bill_of_materials(root: Path, uv: str, digests: dict[str, str]) -> dict[str, Any]:
    """Return the packages of uv.lock and the images as CycloneDX, with hashes and licences."""
    command = [uv, "export", "--quiet", "--frozen", "--no-dev", "--all-packages"]
    command += ["--format", "cyclonedx1.5", "--preview-features", "sbom-export"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    bill: dict[str, Any] = json.loads(done.stdout)
    for component in bill["components"]:
        component["licenses"] = [{"license": {"name": _license(component["name"])}}]
    bill["components"] += [_image_component(*row) for row in sorted(digests.items())]
    bill["components"] += [_npm_component(package) for package in PACKAGES if package.is_served]
    # uv writes a random number and the current time: a release has the commit's
    bill["metadata"]["timestamp"] = _git(root, "log", "-1", "--format=%cI").decode().strip()
    del bill["serialNumber"]
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(bill, sort_keys=True))
    return bill | {"serialNumber": number.urn}


def _image_component(name: str, digest: str) -> dict[str, Any]:
    base, _, tag = name.rpartition(":")
    purl = f"pkg:docker/{base}@{digest.replace(':', '%3A')}?tag={tag}"
    return {"type": "container", "name": base, "version": tag, "bom-ref": purl, "purl": purl}


def _npm_component(package: Package) -> dict[str, Any]:
    purl = f"pkg:npm/{quote(package.name)}@{package.version}"
    about: dict[str, Any] = {
        "name": package.name,
        "version": package.version,
        "bom-ref": purl,
        "purl": purl,
    }
    about["hashes"] = [{"alg": "SHA-512", "content": base64.b64decode(package.sha512).hex()}]
    return {"type": "library", **about, "licenses": [{"license": {"name": package.license}}]}


def _license(package: str) -> str:
    """Return the licence that an installed package declares."""
    try:
        about = importlib.metadata.metadata(package)
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN_LICENSE  # a package for another platform
    classifiers = about.get_all("Classifier") or []
    names = [it.rpartition(" :: ")[2] for it in classifiers if it.startswith("License :: OSI")]
    # some packages put the whole text into the old field
    fields = [
        *(about.get_all("License-Expression") or []),
        " OR ".join(names),
        *(about.get_all("License") or []),
    ]
    declared = next((field.strip() for field in fields if field.strip()), UNKNOWN_LICENSE)
    return declared.splitlines()[0]


def license_lines(bill: dict[str, Any]) -> Iterator[str]:
    """Yield one line per package: name, version and licence."""
    for component in bill["components"]:
        for entry in component.get("licenses", []):
            version = component.get("version", "")
            yield f"{component['name']} {version}: {entry['license']['name']}"


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _git(root: Path, *args: str) -> bytes:
    return subprocess.run(["git", *args], cwd=root, capture_output=True, check=True).stdout


def main() -> int:
    """Build a release of the current checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--uv", required=True)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    root = Path(__file__).parent.parent
    try:
        check_images(root)
        wheels = build_wheel(root, version=given.version, out=given.out, uv=given.uv)
        files = build_release(
            root,
            version=given.version,
            out=given.out,
            uv=given.uv,
            key=given.key,
            wheels=wheels,
        )
    except LookupError as error:
        print(f"release: {error.args[0]}. Run `make pins`, and commit the result.", file=sys.stderr)
        return 1
    print("\n".join(str(file) for file in files))
    if given.key is None:
        print("release: NOT SIGNED: set KEY to the SSH key of the release.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
