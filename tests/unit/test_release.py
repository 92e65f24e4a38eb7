"""Pins of images and of uv, and releases: the same bytes each time, images by digest, valid signatures."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from scripts.pins import (
    IMAGE_LOCK,
    PINNED_FILES,
    pin_images,
    pinned_uv_version,
    read_image_lock,
    third_party_images,
)
from scripts.release import CHECKSUMS, NAMESPACE, bill_of_materials, build_release, license_lines

ROOT = Path(__file__).parents[2]
UV = shutil.which(ROOT / ".tools/bin/uv") or "uv"
SIGNER = "releases@choir.example"
PROJECT = '[project]\nname = "choir"\nversion = "1"\nrequires-python = ">=3.11"\n'


def digest_of(name: str) -> str:
    return "sha256:" + hashlib.sha256(name.encode()).hexdigest()


def all_images() -> set[str]:
    return set[str]().union(
        *(third_party_images((ROOT / path).read_text()) for path in PINNED_FILES)
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with Choir's files that name images, with digests, and no dependencies."""
    root = tmp_path / "checkout"
    for path in PINNED_FILES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    rows = "".join(f"{name} {digest_of(name)}\n" for name in sorted(all_images()))
    (root / IMAGE_LOCK).write_text(f"# a comment\n{rows}")
    (root / "pyproject.toml").write_text(PROJECT)
    subprocess.run([UV, "lock", "--quiet", "--offline"], cwd=root, check=True)
    commit(root)
    return root


def commit(root: Path) -> None:
    names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*names, "commit", "-qm", "c")):
        subprocess.run(["git", *words], cwd=root, check=True)


def key_pair(folder: Path) -> tuple[Path, Path]:
    """Return a new private key, and a file that names its public key as the signer's."""
    key, signers = folder / "key", folder / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signers.write_text(f"{SIGNER} {key.with_suffix('.pub').read_text()}")
    return key, signers


def verifies(sums: Path, signers: Path) -> bool:
    """Verify as docs/development/release.md says."""
    words = ["-Y", "verify", "-f", signers, "-I", SIGNER, "-n", NAMESPACE, "-s", f"{sums}.sig"]
    done = subprocess.run(["ssh-keygen", *words], input=sums.read_bytes(), capture_output=True)
    listed = subprocess.run(
        ["sha256sum", "--check", CHECKSUMS], cwd=sums.parent, capture_output=True
    )
    return done.returncode == 0 and listed.returncode == 0


def test_every_image_from_a_registry_has_one_row_in_the_lock_file() -> None:
    locked = read_image_lock((ROOT / IMAGE_LOCK).read_text())
    assert set(locked) == all_images()
    assert len(locked) >= 7
    assert all(re.fullmatch(r"-|sha256:[0-9a-f]{64}", digest) for digest in locked.values())


def test_every_file_that_names_an_image_of_a_registry_is_pinned() -> None:
    files = [*(ROOT / "deploy").rglob("*"), ROOT / "docker-compose.yml"]
    texts = {path: path.read_text() for path in files if path.suffix in (".yml", ".yaml", ".hcl")}
    named = {
        str(path.relative_to(ROOT)) for path, text in texts.items() if third_party_images(text)
    }
    assert named == set(PINNED_FILES) - {"deploy/docker/Dockerfile"}


def test_every_service_of_compose_has_an_image_of_its_own_or_one_in_the_lock_file() -> None:
    locked = read_image_lock((ROOT / IMAGE_LOCK).read_text())
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        image = service.get("image", ":local")
        assert image in locked or "build" in service or image.endswith(":local"), name


def test_every_image_of_choir_is_published_under_one_prefix() -> None:
    """`published.yml` replaces what compose would build; `bake.hcl` builds what it names."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    own = {name for name, it in services.items() if ":local" in it.get("image", "")}
    text = (ROOT / "deploy/docker/published.yml").read_text()
    published = yaml.safe_load(text.replace("!reset ", ""))["services"]
    assert set(published) == own
    # neither is a service of compose
    others = {"transcriber", "builder"}
    targets = {
        it["image"].removeprefix("${CHOIR_IMAGES}").split(":")[0] for it in published.values()
    }
    baked = re.search(r"item = \[(.*?)\]", (ROOT / "deploy/docker/bake.hcl").read_text())
    assert baked is not None and targets | others == set(re.findall(r"\w+", baked[1]))
    stages = re.findall(
        r"^FROM runtime AS (\w+)", (ROOT / "deploy/docker/Dockerfile").read_text(), re.M
    )
    assert targets | others == set(stages)


def test_an_image_without_a_digest_is_not_pinned_silently() -> None:
    with pytest.raises(LookupError, match=re.escape("nats:2.12-alpine")):
        pin_images("    image: nats:2.12-alpine\n", {"nats:2.12-alpine": "-"})


def test_uv_is_installed_by_version_and_hash_everywhere() -> None:
    pin = (ROOT / "scripts/uv.txt").read_text()
    assert re.fullmatch(r"\d+\.\d+\.\d+", pinned_uv_version())
    assert pin.count("--hash=sha256:") > 10
    for path in ("scripts/install", "deploy/docker/Dockerfile"):
        installs = re.findall(r"pip install .*", (ROOT / path).read_text())
        assert installs and all("--require-hashes -r " in line for line in installs), path


def test_every_package_of_the_lock_file_has_hashes() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    downloaded = [it for it in packages if "registry" in it["source"]]
    files = [file for it in downloaded for file in (*it.get("wheels", []), it.get("sdist"))]
    assert len(downloaded) > 100
    assert all(file["hash"].startswith("sha256:") for file in files if file)
    others = {key for it in packages for key in it["source"]} - {"registry"}
    assert others <= {"editable", "virtual"}, "everything else is Choir's own"


def test_the_bill_of_materials_lists_packages_images_hashes_and_licences() -> None:
    images = {"nats:2.12-alpine": digest_of("nats")}
    bill = bill_of_materials(ROOT, UV, images)
    names = {component["name"] for component in bill["components"]}
    assert {"pydantic", "asyncpg", "prompt-toolkit", "nats", "katex"} <= names
    assert not {"pytest", "pyte", "axe-core"} & names, "packages of tests are not part of a release"
    assert bill["bomFormat"] == "CycloneDX" and bill == bill_of_materials(ROOT, UV, images)
    hashed = [it for it in bill["components"] if "hashes" in json.dumps(it)]
    assert len(hashed) > 80
    lines = list(license_lines(bill))
    assert any(re.fullmatch(r"pydantic [\d.]+: MIT", line) for line in lines)
    assert sum(line.endswith(": unknown") for line in lines) < len(lines) / 5


def test_a_release_is_the_same_bytes_each_time_and_names_images_by_digest(
    checkout: Path, tmp_path: Path
) -> None:
    built = [
        build_release(checkout, version="1.2.3", out=tmp_path / name, uv=UV) for name in ("a", "b")
    ]
    assert [file.read_bytes() for file in built[0]] == [file.read_bytes() for file in built[1]]
    assert built[0][0].read_bytes()[4:8] == bytes(4), "the time of the build is not in it"
    with tarfile.open(built[0][0]) as archive:
        for path in PINNED_FILES:
            file = archive.extractfile(f"choir-1.2.3/{path}")
            assert file is not None
            text = file.read().decode()
            assert third_party_images(text) == set()
            for name in third_party_images((ROOT / path).read_text()):
                assert f"{name}@{digest_of(name)}" in text


def test_a_signed_release_verifies_until_a_byte_of_it_changes(
    checkout: Path, tmp_path: Path
) -> None:
    key, signers = key_pair(tmp_path)
    out = tmp_path / "out"
    files = build_release(checkout, version="1.2.3", out=out, uv=UV, key=key)
    assert verifies(out / CHECKSUMS, signers)
    assert not verifies(out / CHECKSUMS, key_pair(out)[1]), "another key"
    archive = files[0].read_bytes()
    files[0].write_bytes(archive[:-1] + bytes([archive[-1] ^ 1]))
    assert not verifies(out / CHECKSUMS, signers)
    sums = (out / CHECKSUMS).read_text()
    (out / CHECKSUMS).write_text(
        sums.replace(
            hashlib.sha256(archive).hexdigest(), hashlib.sha256(files[0].read_bytes()).hexdigest()
        )
    )
    assert not verifies(out / CHECKSUMS, signers)


def test_without_a_digest_there_is_no_release(checkout: Path, tmp_path: Path) -> None:
    lock = checkout / IMAGE_LOCK
    lock.write_text(re.sub(r"(?m)^(nats\S+|python\S+) .*", r"\1 -", lock.read_text()))
    commit(checkout)
    with pytest.raises(LookupError, match=re.escape("nats:2.12-alpine")):
        build_release(checkout, version="1.2.3", out=tmp_path / "out", uv=UV)
    shutil.copytree(ROOT / "scripts", checkout / "scripts", dirs_exist_ok=True)
    words = [sys.executable, "-m", "scripts.release", "1.2.3", "--out", "out", "--uv", UV]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"release: no digest in {IMAGE_LOCK} for nats:2.12-alpine, python:3.13-slim-trixie. "
        "Run `make pins`, and commit the result.\n"
    )
    assert not (checkout / "out").exists()
