"""The licence: its text stands in LICENSE, and every package names it."""

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the text as the Apache Software Foundation and Debian publish it."""


def package_files() -> list[Path]:
    folders = ("libs/*", "services/*", "deploy/*")
    return [
        ROOT / "pyproject.toml",
        *(f for it in folders for f in ROOT.glob(f"{it}/pyproject.toml")),
    ]


def test_the_license_file_holds_the_whole_text_of_apache_2_0() -> None:
    text = (ROOT / "LICENSE").read_bytes()
    assert hashlib.sha256(text).hexdigest() == APACHE_2_0


def test_every_package_names_the_licence() -> None:
    files = package_files()
    named = {
        str(file.relative_to(ROOT)): tomllib.loads(file.read_text())["project"].get("license")
        for file in files
    }
    assert len(files) > 5
    assert set(named.values()) == {"Apache-2.0"}, named
