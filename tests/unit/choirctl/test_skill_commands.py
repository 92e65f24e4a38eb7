"""`choirctl skill`: nothing is stored before a yes, and the yes counts for the files that were shown."""

import json
import re
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from choir_common.errors import ChoirError
from choir_common.skill_folders.folder import read_skill_folder
from choirctl.app import COMMANDS, build_app
from choirctl.start import git_clone
from choirctl.start.git_clone import cloned_repository
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
    name = TOPICS[5]
    with cloned_repository(f"file://{top}", ["file"]) as clone:
        assert fetch_skill(str(clone), f"skills/{name}").sha256 == wanted[name].sha256
        with pytest.raises(ChoirError, match="skills/invoice-check"):
            fetch_skill(str(clone))
    with pytest.raises(ChoirError, match="not allowed"), cloned_repository(f"file://{top}"):
        pass
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted((top / "skills").rglob("*")):
            archive.write(path, path.relative_to(top))
    for name, folder in wanted.items():
        assert fetch_skill(str(tmp_path / "all.zip"), f"skills/{name}").sha256 == folder.sha256


def test_a_repository_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (
        ("init", "-q"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(git_clone, "MAX_CLONE_FILES", 0)
    with (
        pytest.raises(ChoirError, match="more than 0 files"),
        cloned_repository(f"file://{tmp_path}", ["file"]),
    ):
        pass


def test_an_archive_with_a_compression_that_has_no_limit_is_refused(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = tmp_path / f"{method}.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("s/SKILL.md", "---\nname: s\ndescription: x\n---\nx")
        with pytest.raises(ChoirError, match="Deflate"):
            fetch_skill(str(path))


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


@pytest.mark.parametrize(
    "source",
    [
        "ext::sh -c id", "--upload-pack=id", "git://h/x", "file:///etc", "http://h/x", "/nowhere",
        "ssh://-oProxyCommand=id/x", "-oProxyCommand=id@h:x",
    ],
)  # fmt: skip
def test_a_source_that_could_run_a_program_is_none(source: str) -> None:
    with pytest.raises(ChoirError, match="neither"):
        fetch_skill(source)


def test_the_commands_of_the_guide_work_as_written(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `choirctl skill` line of docs/skills.md, in its order, with `show` and `approve` for NAME."""
    monkeypatch.setenv("HOME", str(tmp_path))
    guide = (Path(__file__).parents[3] / "docs/skills.md").read_text()
    write_skill(tmp_path / "skills", 0)
    assert TOPICS[0] == "invoice-check"
    [add] = re.findall(r"^choirctl skill (add \S+)", guide, re.MULTILINE)
    commands = [add, *re.findall(r"^\| `choirctl skill ([^`]+)`", guide, re.MULTILINE)]
    assert [words.split()[0] for words in commands] == ["add", "list", "show", "approve", "remove"]
    digest = read_skill_folder(tmp_path / "skills/invoice-check").sha256
    for words in commands:
        yes = ["--sha256", digest] if words.startswith(("add", "approve")) else []
        done = run(home, *words.replace("NAME", "invoice-check").split(), *yes)
        assert done.exit_code == 0, done.output
        if words == add:
            # the pin has the form of the guide's example
            [example] = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
            shown = json.loads("{" + example.replace("6b1f…", digest) + "}")
            assert pins(home) == shown["skills"]
    assert not pins(home) and not states(home)


def test_a_folder_without_skill_file_is_no_skill_and_is_never_removed(home: Path) -> None:
    (home / "agents/main/skills/drafts").mkdir(parents=True)
    assert not states(home)
    assert run(home, "remove", "drafts").exit_code != 0
    assert (home / "agents/main/skills/drafts").is_dir()
