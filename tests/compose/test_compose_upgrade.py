"""`choirctl upgrade --compose` and whole-home backups with real containers.

The checkout is a clone with image names of its own, so that it changes no image of this machine.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.compose.containers import ROOT, docker, engine_answers
from tests.support.ports import free_port

MIGRATIONS = "services/control/choir_control/migrations"
BROKEN = 'CREATE TABLE "choir_control".next (x int); SELECT 1 / 0;'
WITHIN_S = 2400
SERVICES = ("control", "memory", "gateway", "egress", "tools", "agent")
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]


@dataclass
class Installation:
    """A checkout, its state directory and its containers."""

    root: Path
    home: Path
    project: str
    env: dict[str, str]

    def run(self, *command: str, code: int = 0) -> str:
        done = subprocess.run(
            command, cwd=self.root, env=self.env, capture_output=True, text=True, timeout=WITHIN_S
        )
        assert done.returncode == code, f"{command}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout if code == 0 else done.stderr

    def compose(self, *words: str, code: int = 0) -> str:
        return self.run("docker", "compose", *words, code=code)

    def choirctl(self, *words: str, code: int = 0) -> str:
        """Run choirctl in a container, as a user with nothing but Docker."""
        return self.compose("exec", "-T", "control", "choirctl", *words, code=code)

    def git(self, *words: str) -> str:
        names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return self.run("git", *names, *words).strip()

    def upgrade_command(self, *words: str) -> list[str]:
        """Return the upgrade by this machine's choirctl."""
        program = [sys.executable, "-m", "choirctl", "upgrade", "--compose", str(self.root)]
        return [*program, "--home", str(self.home), "--yes", *words]

    def commit_next(self, file: str, text: str) -> str:
        """Commit a next version with one more file on no branch; return its commit."""
        before = self.git("rev-parse", "HEAD")
        (self.root / file).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", "next")
        commit = self.git("rev-parse", "HEAD")
        self.git("reset", "-q", "--hard", before)
        return commit

    def record(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            return dict(json.loads((self.home / "upgrade/upgrade.json").read_text()))
        return {}

    def unfinished_step(self) -> str:
        """Return the step of an upgrade that has not ended; empty if there is none."""
        record = self.record()
        return str(record["step"]) if record and record["outcome"] is None else ""

    def revision(self) -> str:
        rows = json.loads(self.choirctl("db", "status", "--json"))["schemas"]
        return str(next(it["revision"] for it in rows if it["schema"] == "choir_control"))

    def sessions(self) -> set[str]:
        return {it["session_id"] for it in json.loads(self.choirctl("session", "list", "--json"))}


@pytest.fixture(scope="module")
def choir() -> Iterator[Installation]:
    missing = engine_answers()
    if missing:
        pytest.skip(f"NO DOCKER ENGINE WITH COMPOSE ANSWERS: containers are not tested ({missing})")
    place = Path(tempfile.mkdtemp(prefix="choir-du-"))
    root, home, project = place / "code", place / "home", f"choirup{secrets.token_hex(3)}"
    env = {**os.environ, "CHOIR_HOME": str(home), "CHOIR_HTTP_PORT": str(free_port())}
    env |= {"COMPOSE_PROJECT_NAME": project, "COMPOSE_PROFILES": "", "PYTHONSAFEPATH": "1"}
    subprocess.run(["git", "clone", "-q", ROOT, root], check=True)
    choir = Installation(root, home, project, env)
    try:
        choir.git("checkout", "-q", "-B", "tested", "HEAD")
        choir.git("remote", "remove", "origin")
        file = root / "docker-compose.yml"
        file.write_text(re.sub(r"choir-(\w+:local)", rf"{project}-\1", file.read_text()))
        choir.git("commit", "-qam", "images of its own")
        choir.compose("up", "--wait", "--build", "--quiet-pull")
        choir.choirctl("chat", "-m", "hello")
        yield choir
    finally:
        with contextlib.suppress(AssertionError):
            choir.compose("down", "--volumes", "--remove-orphans", "--timeout=20")
        agents = docker("ps", "--all", "--quiet", f"--filter=label=choir.home={home}").split()
        if agents:
            docker("rm", "--force", *agents)
        images = docker("image", "ls", "--format={{.Repository}}:{{.Tag}}").split()
        own = [it for it in images if it.startswith(f"{project}-")]
        if own:
            docker("image", "rm", "--force", *own)
        shutil.rmtree(place, ignore_errors=True)


def check(choir: Installation, commit: str, revision: str, sessions: set[str]) -> None:
    """The version runs and answers, its database fits, and every log from before verifies."""
    assert choir.git("rev-parse", "HEAD") == commit
    assert choir.revision().startswith(revision)
    assert choir.choirctl("chat", "-m", "still there?").strip()
    assert sessions <= choir.sessions()
    for session in sessions:
        choir.choirctl("session", "verify", session)


def test_a_home_in_containers_comes_back_with_everything(choir: Installation) -> None:
    (choir.home / "workspaces/main/note.txt").write_text("kept")
    before = choir.sessions()
    report = json.loads(choir.choirctl("backup", "create", "--without-secrets", "--json"))
    file = report["file"]
    assert Path(file).is_relative_to(choir.home / "backups")
    (choir.home / "workspaces/main/note.txt").write_text("changed")
    restore = ("run", "--rm", "--no-deps", "-T", "control", "choirctl", "backup", "restore", file)
    assert "connections use the database" in " ".join(choir.compose(*restore, code=5).split())
    choir.compose("stop", "control", "memory")
    assert "--replace" in choir.compose(*restore, code=5)
    report = json.loads(choir.compose(*restore, "--replace", "--json"))
    assert report["sessions"] >= 1
    assert (choir.home / "workspaces/main/note.txt").read_text() == "kept"
    assert (Path(report["previous"]) / "workspaces/main/note.txt").read_text() == "changed"
    choir.compose("up", "--wait")
    assert before <= choir.sessions()
    assert choir.choirctl("chat", "-m", "still there?").strip()


def test_a_version_that_does_not_migrate_is_undone(choir: Installation) -> None:
    old, revision, sessions = choir.git("rev-parse", "HEAD"), choir.revision(), choir.sessions()
    commit = choir.commit_next(f"{MIGRATIONS}/9000_next.sql", BROKEN)
    text = choir.run(*choir.upgrade_command("--from", f"git:{commit}"), code=1)
    assert "in the step migrate" in " ".join(text.split())
    assert choir.record()["outcome"] == "rolled-back"
    check(choir, old, revision, sessions)


def test_an_upgrade_killed_twice_is_completed(choir: Installation) -> None:
    """The new version differs in a page of the gateway's image only: all images again are gigabytes."""
    revision, sessions = choir.revision(), choir.sessions()
    commit = choir.commit_next("docs/next.md", "# Next")
    command = choir.upgrade_command("--from", f"git:{commit}")
    for step in ("migrate", "start"):
        process = subprocess.Popen(
            command,
            cwd=choir.root,
            env=choir.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + WITHIN_S
        while process.poll() is None and choir.unfinished_step() != step:
            assert time.monotonic() < deadline, step
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert choir.unfinished_step() == step
        if step == "migrate":
            # nobody starts a version on the database of another meanwhile
            choir.compose("up", "setup")
            text = choir.compose("logs", "--no-color", "setup")
            assert "An upgrade was interrupted in the step migrate" in text
        command = choir.upgrade_command()
    choir.run(*command)
    assert choir.record()["outcome"] == "done"
    check(choir, commit, revision, sessions)
    choir.compose("exec", "-T", "gateway", "test", "-f", "/opt/gateway/share/choir/docs/next.md")
    images = docker("image", "ls", "--format={{.Repository}}:{{.Tag}}").split()
    tags = {it.partition(":")[2] for it in images if it.startswith(choir.project)}
    assert tags == {"local"}, "nothing of the upgrade is left"


def test_an_older_version_is_refused_with_the_backup_to_restore(choir: Installation) -> None:
    """Runs last: the old images are gone, so the record is made one of a newer version instead."""
    file = choir.home / "data/version.json"
    record = json.loads(file.read_text())
    record["newest"]["choir_control.migrations"] = "9999_newer.sql"
    file.write_text(json.dumps(record))
    backup = choir.record()["backup"]
    choir.compose("up", "setup")
    text = choir.compose("logs", "--no-color", "--tail=20", "setup")
    assert backup in text and "cannot go back" in text
