"""`choirctl upgrade --compose` and whole-home backups with real containers, from an earlier version on.

The tests run in their order. The checkout is a clone with image names of its own, so that it changes no image
of this machine.
"""

import asyncio
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

from choir_local.upgrade.compose_images import REVISION
from tests.compose.containers import ROOT, docker, engine_answers
from tests.support.docker_registry import REGISTRY, running_registry
from tests.support.ports import free_port
from tests.support.stack import EmbeddedStack, console_user, read_log, sessions_of

MIGRATIONS = "services/control/choir_control/migrations"
BROKEN = {
    "migrate": (
        f"{MIGRATIONS}/9000_next.sql",
        'CREATE TABLE "choir_control".next (x int); SELECT 1 / 0;',
    ),
    "start": (
        "services/control/choir_control/__main__.py",
        "raise SystemExit('this version is broken')\n",
    ),
}
EARLIER = os.environ.get("CHOIR_TEST_EARLIER", "")
"""The version to start from; by default the one before the newest migration of control."""
WITHIN_S = 2400
SERVICES = ("control", "memory", "gateway", "egress", "tools", "agent")
SITE = "lib/python3.13/site-packages/choir_control"
NEXT_MIGRATION = "".join(
    f"RUN [ ! -d /opt/{it}/{SITE}/migrations ] || echo 'CREATE TABLE \"choir_control\".next (x int);' "
    f"> /opt/{it}/{SITE}/migrations/9000_next.sql\n"
    for it in ("control", "tools")
)
BROKEN_CONTROL = (
    f"RUN [ ! -d /opt/control/{SITE} ] || "
    f"echo 'raise SystemExit(1)' > /opt/control/{SITE}/__main__.py\n"
)
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]


@dataclass
class Installation:
    """A checkout, its state directory and its containers."""

    root: Path
    home: Path
    project: str
    env: dict[str, str]
    newest: str = ""
    """The commit of the version that is tested; an earlier one runs first."""

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

    def kill_upgrade_in(self, step: str, command: list[str]) -> None:
        """Start an upgrade, and kill it when it is in a step."""
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + WITHIN_S
        while process.poll() is None and self.unfinished_step() != step:
            assert time.monotonic() < deadline, step
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert self.unfinished_step() == step

    def publish(self, prefix: str, version: str, commit: str, changes: str = "") -> None:
        """Push the images in use with changes, and remove them here."""
        for name in SERVICES:
            image = f"{prefix}{name}:{version}"
            # these two have the migrations
            more = changes if name in ("control", "tools") else ""
            user = docker("inspect", "--format={{.Config.User}}", f"{self.project}-{name}:local")
            text = f"FROM {self.project}-{name}:local\nUSER root\n{more}USER {user.strip() or 'root'}\n"
            words = ("docker", "build", "-q", "-t", image, f"--label={REVISION}={commit}", "-")
            subprocess.run(words, input=text, text=True, check=True, capture_output=True)
            self.run("docker", "push", "--quiet", image)
            docker("image", "rm", image)

    def record(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            return dict(json.loads((self.home / "upgrade/upgrade.json").read_text()))
        return {}

    def prepare_version(self, ref: str) -> str:
        """Commit a version with image names of its own on no branch; return its commit."""
        self.git("checkout", "-q", "--detach", ref)
        file = self.root / "docker-compose.yml"
        file.write_text(re.sub(r"choir-(\w+:local)", rf"{self.project}-\1", file.read_text()))
        self.git("commit", "-qam", "images of its own")
        return self.git("rev-parse", "HEAD")

    @property
    def stack(self) -> EmbeddedStack:
        """Return what reaches control by its socket in the state directory."""
        return EmbeddedStack(self.home, int(self.env["CHOIR_HTTP_PORT"]))

    def unfinished_step(self) -> str:
        """Return the step of an upgrade that has not ended; empty if there is none."""
        record = self.record()
        return str(record["step"]) if record and record["outcome"] is None else ""

    @property
    def newest_migration(self) -> str:
        """Return the number of control's newest migration in the checkout."""
        return max(it.name for it in (self.root / MIGRATIONS).glob("*.sql")).partition("_")[0]

    def revision(self) -> str:
        rows = json.loads(self.choirctl("db", "status", "--json"))["schemas"]
        return str(next(it["revision"] for it in rows if it["schema"] == "choir_control"))

    def sessions(self) -> set[str]:
        return {it["session_id"] for it in json.loads(self.choirctl("session", "list", "--json"))}


def version_before_migration(choir: Installation) -> str:
    """Return the version before the one that added the newest migration of control."""
    words = ("--first-parent", "-m", "--diff-filter=A", "--format=%H^1", "-1")
    return choir.git("log", *words, "--", f"{MIGRATIONS}/*.sql")


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
        head = choir.git("rev-parse", "HEAD")
        earlier = choir.git("rev-parse", EARLIER or version_before_migration(choir))
        choir.git("remote", "remove", "origin")
        choir.newest = choir.prepare_version(head)
        choir.git("checkout", "-q", "-B", "tested", choir.prepare_version(earlier))
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
        own = [it for it in images if f"{project}-" in it]
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


async def talk(choir: Installation, accepted: list[str], stop: asyncio.Event) -> None:
    """Send messages until told to stop; a message counts once it was accepted."""
    async with console_user(choir.stack.endpoint) as user:
        while not stop.is_set():
            with contextlib.suppress(AssertionError):
                accepted.append(await user.says(f"message {len(accepted)}", patience_s=WITHIN_S))
            await asyncio.sleep(0.5)


async def test_an_earlier_version_is_upgraded_under_load(choir: Installation) -> None:
    revision, sessions = choir.revision().partition("_")[0], choir.sessions()
    assert revision == choir.newest_migration
    accepted, stop = list[str](), asyncio.Event()
    talking = asyncio.create_task(talk(choir, accepted, stop))
    command = choir.upgrade_command("--from", f"git:{choir.newest}")
    start = time.monotonic()
    await asyncio.to_thread(choir.run, *command)
    print(f"upgraded in {time.monotonic() - start:.0f} s")
    before = len(accepted)
    async with asyncio.timeout(300):
        while len(accepted) < before + 3:
            await asyncio.sleep(0.5)
    stop.set()
    await talking
    assert choir.record()["outcome"] == "done"
    async with console_user(choir.stack.endpoint) as user:
        await user.asks("and now?")
    started: set[str] = set()
    for row in await sessions_of(choir.stack):
        events = await read_log(choir.stack, row["session_id"])
        started.update(str(it.payload.get("inbox_id")) for it in events)
    assert set(accepted) <= started, "an accepted message is in no log"
    assert choir.newest_migration > revision, "no migration was crossed"
    await asyncio.to_thread(check, choir, choir.newest, choir.newest_migration, sessions)


def test_the_schedule_backs_up_in_containers(choir: Installation) -> None:
    file = choir.home / "config.json"
    config = json.loads(file.read_text())
    owner = file.stat()
    file.write_text(json.dumps({**config, "backup": {"every": "1d"}}))
    os.chown(file, owner.st_uid, owner.st_gid)
    deadline = time.monotonic() + 300
    while not (backups := list((choir.home / "backups").glob("choir-*-scheduled.tar"))):
        assert time.monotonic() < deadline, choir.compose("logs", "--no-color", "backups")
        time.sleep(1)
    assert len(backups) == 1
    report = json.loads(choir.choirctl("backup", "verify", str(backups[0]), "--json"))
    assert report["ok"] and report["workspaces"]


def test_a_home_in_containers_comes_back_with_everything(choir: Installation) -> None:
    (choir.home / "workspaces/main/note.txt").write_text("kept")
    before = choir.sessions()
    report = json.loads(choir.choirctl("backup", "create", "--without-secrets", "--json"))
    file = report["file"]
    assert Path(file).is_relative_to(choir.home / "backups")
    (choir.home / "workspaces/main/note.txt").write_text("changed")
    restore = ("run", "--rm", "--no-deps", "-T", "control", "choirctl", "backup", "restore", file)
    assert "connections use the database" in " ".join(choir.compose(*restore, code=5).split())
    choir.compose("stop", "control", "memory", "backups")
    assert "--replace" in choir.compose(*restore, code=5)
    report = json.loads(choir.compose(*restore, "--replace", "--json"))
    assert report["sessions"] >= 1
    assert (choir.home / "workspaces/main/note.txt").read_text() == "kept"
    assert (Path(report["previous"]) / "workspaces/main/note.txt").read_text() == "changed"
    choir.compose("up", "--wait")
    assert before <= choir.sessions()
    assert choir.choirctl("chat", "-m", "still there?").strip()


@pytest.mark.parametrize("step", BROKEN)
def test_a_version_that_does_not_migrate_or_start_is_undone(choir: Installation, step: str) -> None:
    old, revision, sessions = choir.git("rev-parse", "HEAD"), choir.revision(), choir.sessions()
    commit = choir.commit_next(*BROKEN[step])
    text = choir.run(*choir.upgrade_command("--from", f"git:{commit}"), code=1)
    assert f"in the step {step}" in " ".join(text.split())
    assert choir.record()["outcome"] == "rolled-back"
    check(choir, old, revision, sessions)


def test_an_upgrade_killed_twice_is_completed(choir: Installation) -> None:
    """The new version differs in a page of the gateway's image only: all images again are gigabytes."""
    revision, sessions = choir.revision(), choir.sessions()
    commit = choir.commit_next("docs/next.md", "# Next")
    command = choir.upgrade_command("--from", f"git:{commit}")
    for step in ("migrate", "start"):
        choir.kill_upgrade_in(step, command)
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


@pytest.mark.skipif(REGISTRY is None, reason="NO docker-registry (Debian: docker-registry) HERE")
def test_published_images_are_upgraded_killed_and_undone(
    choir: Installation, tmp_path: Path
) -> None:
    """The installation changes to images of a registry; their next version has a migration of its own."""
    old = choir.git("rev-parse", "HEAD")
    new = choir.commit_next("docs/published.md", "# Published")
    with running_registry(tmp_path) as url:
        prefix = f"{url.removeprefix('http://')}/{choir.project}-"
        choir.publish(prefix, "1.0.0", old)
        env = "COMPOSE_FILE=docker-compose.yml:deploy/docker/published.yml\n"
        env += f"CHOIR_IMAGES={prefix}\n# the version\nCHOIR_VERSION="
        (choir.root / ".env").write_text(f"{env}1.0.0\n")
        choir.compose("pull", "--quiet", "--policy=missing")
        choir.compose("up", "--wait")
        sessions = choir.sessions()
        text = choir.run(*choir.upgrade_command("--from", "image:9.9.9"), code=1)
        assert "Nothing was changed" in " ".join(text.split())

        choir.publish(prefix, "1.1.0", new, NEXT_MIGRATION)
        start = time.monotonic()
        choir.kill_upgrade_in("migrate", choir.upgrade_command("--from", "image:1.1.0"))
        choir.run(*choir.upgrade_command())
        print(f"upgraded to published images in {time.monotonic() - start:.0f} s with a kill")
        assert choir.record()["outcome"] == "done"
        assert (choir.root / ".env").read_text() == f"{env}1.1.0\n"
        check(choir, new, "9000", sessions)
        images = choir.compose("ps", "--format={{.Image}}").split()
        assert f"{prefix}control:1.1.0" in images

        choir.publish(prefix, "1.2.0", new, NEXT_MIGRATION + BROKEN_CONTROL)
        text = choir.run(*choir.upgrade_command("--from", "image:1.2.0"), code=1)
        assert "in the step start" in " ".join(text.split())
    # going back needs no registry
    assert choir.record()["outcome"] == "rolled-back"
    assert (choir.root / ".env").read_text() == f"{env}1.1.0\n"
    check(choir, new, "9000", sessions)


def test_an_older_version_is_refused_with_the_backup_to_restore(choir: Installation) -> None:
    """Runs last or alone: the old images are gone, so the record is made one of a newer version instead."""
    file = choir.home / "data/version.json"
    record = json.loads(file.read_text())
    record["newest"]["choir_control.migrations"] = "9999_newer.sql"
    file.write_text(json.dumps(record))
    backup = choir.record().get("backup", "a backup made by this version")
    choir.compose("up", "setup")
    text = choir.compose("logs", "--no-color", "--tail=20", "setup")
    assert backup in text and "cannot go back" in text
