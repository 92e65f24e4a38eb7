"""`choirctl skill`: nothing is stored before a yes, and the yes counts for the files that were shown."""

import json
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from choir_common.errors import ChoirError
from choir_common.skill_folders.folder import read_skill_folder
from choirctl.app import COMMANDS, build_app
from choirctl.start.skill_source import fetch_skill
from tests.support.skill_folders import TOPICS, write_skill

CONFIG = {
    "workspaces": {"w": {"path": "/tmp/w"}},
    "models": {"m": {"model": "x", "endpoint": "http://127.0.0.1:1/v1", "provider": "openai"}},
    "dms": {"d": {"gateway": "console", "user_id": "u"}},
    "agents": {"main": {"defaults": {"workspace": "w", "llm": "m", "dm": "d"}}},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.json").write_text(json.dumps(CONFIG))
    return home


def run(home: Path, *words: str) -> Result:
    app = build_app({entry.name for entry in COMMANDS})
    return CliRunner().invoke(app, ["skill", *words, "--home", str(home)])


def pins(home: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((home / "config.json").read_text()).get(
        "skills", {}
    )
    return found


def states(home: Path) -> dict[str, str]:
    listed = json.loads(run(home, "list", "--json").stdout)["skills"]
    return {skill["name"]: skill["state"] for skill in listed}


def test_a_skill_is_shown_whole_and_stored_only_with_a_yes_to_its_hash(
    home: Path, tmp_path: Path
) -> None:
    folder = write_skill(tmp_path / "from", 4)
    shown = run(home, "add", str(folder))
    assert (
        shown.exit_code != 0
        and "import sys" in shown.stdout
        and "│ # recipe-scaling" in shown.stdout
    )
    wrong = run(home, "add", str(folder), "--sha256", "0" * 64)
    assert wrong.exit_code != 0
    assert not (home / "agents").exists() and not pins(home)
    digest = read_skill_folder(folder).sha256
    assert run(home, "add", str(folder), "--sha256", digest).exit_code == 0
    assert pins(home) == {"recipe-scaling": {"sha256": digest, "agents": ["main"]}}
    assert read_skill_folder(home / "agents/main/skills/recipe-scaling").sha256 == digest
    assert run(home, "add", str(folder), "--sha256", digest).exit_code != 0


def test_a_change_needs_another_yes_and_a_removed_skill_is_gone(home: Path, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "from", 2)
    digest = read_skill_folder(folder).sha256
    run(home, "add", str(folder), "--sha256", digest)
    assert states(home) == {"csv-summary": "approved"}
    script = home / "agents/main/skills/csv-summary/scripts/count.py"
    script.write_text("print('changed')")
    assert states(home) == {"csv-summary": "changed"}
    assert run(home, "approve", "csv-summary", "--sha256", digest).exit_code != 0
    assert pins(home)["csv-summary"]["sha256"] == digest
    shown = json.loads(run(home, "show", "csv-summary", "--json").stdout)
    assert {"path": "scripts/count.py", "executable": False, "text": "print('changed')"} in shown[
        "files"
    ]
    assert run(home, "approve", "csv-summary", "--sha256", shown["sha256"]).exit_code == 0
    assert states(home) == {"csv-summary": "approved"}
    assert run(home, "remove", "csv-summary").exit_code == 0
    assert not pins(home) and not states(home) and not script.exists()


def test_hidden_characters_are_refused_and_never_printed(home: Path, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "from", name="notes", body="Hi\u202e\x1b[2J there\u200b")
    refused = run(home, "add", str(folder), "--sha256", read_skill_folder(folder).sha256)
    assert refused.exit_code != 0 and not pins(home) and not (home / "agents").exists()
    write_skill(home / "agents/main/skills", name="notes", body="Hi\u202e\x1b[2J there\u200b")
    shown = run(home, "show", "notes")
    assert "<U+202E>" in shown.stdout and "REFUSED" in shown.stdout
    assert not {"\u202e", "\x1b", "\u200b"} & {*shown.stdout}
    assert states(home) == {"notes": "not approved"}


def test_all_twenty_come_from_a_git_repository_and_a_zip_archive(tmp_path: Path) -> None:
    top = tmp_path / "repository"
    wanted = {
        name: read_skill_folder(write_skill(top / "skills", n)) for n, name in enumerate(TOPICS)
    }
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", *words], cwd=top, check=True)
    address = f"file://{top}"
    name = TOPICS[5]
    assert fetch_skill(address, f"skills/{name}").sha256 == wanted[name].sha256
    with pytest.raises(ChoirError, match="skills/invoice-check"):
        fetch_skill(address)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted((top / "skills").rglob("*")):
            archive.write(path, path.relative_to(top))
    for name, folder in wanted.items():
        assert fetch_skill(str(tmp_path / "all.zip"), f"skills/{name}").sha256 == folder.sha256


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, str]:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry, target


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        ("s/../../evil", "x"),
        ("/etc/evil", "x"),
        ("s\\..\\evil", "x"),
        ("s/bomb.txt", "0" * 200_000_000),
        link("s/keys", "/etc/passwd"),
        ("s/skill.md", "differs only in case"),
        ("s/SKILL.md/x", "below a file"),
    ],
    ids=["parent", "absolute", "backslash", "bomb", "link", "case", "below"],
)
def test_an_archive_that_plays_tricks_is_refused(
    tmp_path: Path, entry: str | zipfile.ZipInfo, content: str
) -> None:
    path = tmp_path / "s.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("s/SKILL.md", "---\nname: s\ndescription: x\n---\nx")
    fetch_skill(str(path))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(entry, content)
    with pytest.raises(ChoirError):
        fetch_skill(str(path))


@pytest.mark.parametrize("source", ["ext::sh -c id", "--upload-pack=id", "git://h/x", "/nowhere"])
def test_a_source_that_could_run_a_program_is_none(source: str) -> None:
    with pytest.raises(ChoirError, match="neither"):
        fetch_skill(source)
