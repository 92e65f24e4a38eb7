"""Build `choir-agents`, the one wheel that contains all packages of Choir, and its constraints.

`python -m scripts.wheel --out DIR --uv UV [--version VERSION]`. Without a version the tag of the commit
(`v1.2.3`) is used, else `0.1.0.devN` with the number of commits. Used by `make wheel` and `release`.

One wheel, because then one name on an index is enough: a wheel that depends on `choir-memory` would install
what anybody else publishes under that name. Its metadata comes from the pyproject files of the packages.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NAME = "choir-agents"
BASE_VERSION = "0.1.0"
LEFT_OUT = "choir-testing"
EXTRAS = ("browser", "offline", "transcription")
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?P<extras>\[[^]]*\])?(?P<specifier>.*)")
DOCS = "share/choir/docs"
"""Where the web page looks for the guides, below `sys.prefix`."""


@dataclass(slots=True)
class WheelContents:
    """What the packages of the workspace need together."""

    folders: dict[str, Path] = field(default_factory=dict)
    """The folder of each importable package."""
    dependencies: list[str] = field(default_factory=list)
    extras: dict[str, list[str]] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)


def collect_packages(root: Path = ROOT) -> WheelContents:
    """Return the packages of the workspace, and their dependencies on third parties."""
    contents = WheelContents()
    required: list[str] = []
    for file in sorted(root.glob("*/*/pyproject.toml")):
        project = tomllib.loads(file.read_text())["project"]
        if project["name"] == LEFT_OUT:
            continue
        module = project["name"].replace("-", "_")
        contents.folders[module] = file.parent / module
        required += project["dependencies"]
        for name, extra in project.get("optional-dependencies", {}).items():
            contents.extras[name] = sorted({*contents.extras.get(name, []), *extra})
        contents.scripts |= project.get("scripts", {})
    own = {module.replace("_", "-") for module in contents.folders}
    contents.dependencies = merge_requirements(required, own)
    return contents


def merge_requirements(required: Iterable[str], own: set[str]) -> list[str]:
    """Return one requirement per third-party package, which satisfies all of `required`."""
    extras: dict[str, set[str]] = {}
    specifiers: dict[str, set[str]] = {}
    for requirement in required:
        match = REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise ValueError(f"not a requirement: {requirement}")
        name = match["name"].lower().replace("_", "-")
        if name in own:
            continue
        extras.setdefault(name, set()).update((match["extras"] or "")[1:-1].split(","))
        specifiers.setdefault(name, set()).update(match["specifier"].split(","))
    return [
        f"{name}{_in_brackets(extras[name])}{','.join(sorted(specifiers[name] - {''}))}"
        for name in sorted(specifiers)
    ]


def _in_brackets(extras: set[str]) -> str:
    names = sorted(extras - {""})
    return f"[{','.join(names)}]" if names else ""


def wheel_version(root: Path = ROOT) -> str:
    """Return the version of the checkout: that of the commit's tag, else a development version."""
    tag = _git(root, "describe", "--tags", "--exact-match", "--match", "v[0-9]*")
    return tag.removeprefix("v") or f"{BASE_VERSION}.dev{_git(root, 'rev-list', '--count', 'HEAD')}"


def project_file(contents: WheelContents, version: str) -> str:
    """Return the pyproject.toml from which the wheel is built."""
    lists = {name: _toml(contents.extras[name]) for name in EXTRAS}
    everything = _toml([f"{NAME}[{','.join(EXTRAS[:2])}]"])
    data = f'"docs" = "{DOCS}"'
    return "\n".join(
        (
            "[project]",
            f'name = "{NAME}"',
            f'version = "{version}"',
            'description = "Self-hosted personal LLM agents."',
            'readme = "README.md"',
            'license = "Apache-2.0"',
            'license-files = ["LICENSE", "NOTICE"]',
            'requires-python = ">=3.11"',
            f"dependencies = {_toml(contents.dependencies)}",
            "[project.optional-dependencies]",
            *(f"{name} = {value}" for name, value in lists.items()),
            f"all = {everything}",
            "[project.scripts]",
            *(f'{name} = "{value}"' for name, value in contents.scripts.items()),
            f'{NAME} = "{contents.scripts["choirctl"]}"',  # `uvx choir-agents` runs this one
            "[build-system]",
            'requires = ["hatchling"]',
            'build-backend = "hatchling.build"',
            "[tool.hatch.build.targets.wheel]",
            f"packages = {_toml(sorted(contents.folders))}",
            "[tool.hatch.build.targets.wheel.shared-data]",
            data,
            "",
        )
    )


def _toml(words: Iterable[Any]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def build_wheel(root: Path, *, version: str, out: Path, uv: str) -> list[Path]:
    """Build the wheel and its constraints in `out`; the same commit gives the same bytes.

    Raises CalledProcessError if uv fails.
    """
    contents = collect_packages(root)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        for module, source in contents.folders.items():
            shutil.copytree(source, stage / module, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(root / "docs", stage / "docs", ignore=_all_but_guides(root / "docs"))
        for name in ("README.md", "LICENSE", "NOTICE"):
            shutil.copy(root / name, stage / name)
        (stage / "pyproject.toml").write_text(project_file(contents, version))
        command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(out.absolute()), str(stage)]
        moment = _git(root, "log", "-1", "--format=%ct") or "0"
        subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": moment})
    constraints = out / f"{NAME}-{version}-constraints.txt"
    export = [uv, "export", "--quiet", "--frozen", "--no-dev", "--all-packages", "--no-hashes"]
    export += ["--no-emit-workspace", "--no-header", "--no-annotate"]
    export += ["--extra", "browser", "--extra", "offline"]
    done = subprocess.run(export, cwd=root, check=True, capture_output=True)
    constraints.write_bytes(done.stdout)
    return [out / f"{NAME.replace('-', '_')}-{version}-py3-none-any.whl", constraints]


def _all_but_guides(docs: Path) -> Any:
    def ignore(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder) != docs or not name.endswith(".md")]

    return ignore


def _git(root: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> int:
    """Build the wheel of the current checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--uv", required=True)
    parser.add_argument("--version", default="")
    given = parser.parse_args()
    version = given.version or wheel_version()
    for file in build_wheel(ROOT, version=version, out=given.out, uv=given.uv):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
