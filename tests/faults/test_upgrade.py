"""`choirctl upgrade` of real checkouts under traffic, killed in every step; and from an earlier version.

A checkout is a clone of this repository with a small environment: its own code, and the libraries of the
tests' environment. A next version is a commit with a migration, which may be broken.
"""

import asyncio
import contextlib
import json
import os
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

from choir_common.http.client import make_client
from choir_local.upgrade.sequence import FORWARD
from choirctl.start.state_directory import create_state_directory
from tests.service.local.test_configured_postgres import (
    connection,
    make_alice,
    name_server,
    set_secret,
)
from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.stack import EmbeddedStack, console_user, sessions_of, verify

ROOT = Path(__file__).parents[2]
MIGRATIONS = "services/control/choir_control/migrations"
BROKEN_START = "raise SystemExit('this version is broken')\n"
EARLIER = os.environ.get("CHOIR_TEST_EARLIER", "HEAD~150")
DAYS = int(os.environ.get("CHOIR_TEST_DAYS", "365"))
"""Days of the home that is upgraded: a session each, with MESSAGES_A_DAY."""
MESSAGES_A_DAY = 20
PATIENCE_S = 900.0
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


@dataclass
class Version:
    """A checkout with an environment, and a home that it runs."""

    root: Path
    stack: EmbeddedStack

    def git(self, *words: str) -> str:
        names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        done = subprocess.run(
            ["git", *names, *words], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start this checkout's choirctl."""
        return subprocess.Popen(
            [self.root / ".venv/bin/choirctl", *words],
            env={**os.environ, **self.stack.env, "CHOIR_HOME": str(self.stack.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, f"{words}: {stdout}\n{stderr}\n{self.stack.logs()}"
        return stdout if code == 0 else stderr

    def commit_next(self, number: int = 0, *, broken: bool = False) -> str:
        """Commit a next version on the branch `next`; return its commit."""
        before = self.git("rev-parse", "HEAD")
        file = self.root / MIGRATIONS / f"{9000 + number}_next_version.sql"
        file.write_text(f'CREATE TABLE "choir_control".next_{number} (x int);\n')
        if broken:
            app = self.root / "services/control/choir_control/__main__.py"
            app.write_text(BROKEN_START)
        self.git("add", "-A")
        self.git("commit", "-qm", "next")
        commit = self.git("rev-parse", "HEAD")
        self.git("reset", "-q", "--hard", before)
        return commit

    def record(self) -> dict[str, Any]:
        """Return the record of the upgrade; {} if there is none."""
        with contextlib.suppress(FileNotFoundError):
            text = (self.stack.home / "upgrade/upgrade.json").read_text()
            return dict(json.loads(text))
        return {}

    def is_in(self, step: str) -> bool:
        """Return whether an upgrade is in a step; the record of the last one stays until the next begins."""
        record = self.record()
        return (record.get("step"), record.get("outcome")) == (step, None)


@contextlib.contextmanager
def checkout(ref: str) -> Iterator[Version]:
    # on the disk of the environment, for hard links, and not below /tmp, which agents do not see
    (ROOT / ".tools").mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="upgrade-", dir=ROOT / ".tools")) / "code"
    place = make_short_directory("choir-up-")
    home, port = place / "h", free_port()
    try:
        subprocess.run(["git", "clone", "-q", "--shared", ROOT, root], check=True)
        version = Version(root, EmbeddedStack(home, port, {"CHOIR_HTTP_PORT": str(port)}))
        commit = subprocess.run(
            ["git", "rev-parse", ref], cwd=ROOT, check=True, capture_output=True, text=True
        )
        version.git("checkout", "-q", "-B", "tested", commit.stdout.strip())
        # nothing is to be installed: both versions use the libraries of the tests
        version.git("remote", "remove", "origin")
        (root / "scripts/install").write_text("#!/bin/sh\nexit 0\n")
        (root / "scripts/install").chmod(0o755)
        version.git("commit", "-qam", "no installation")
        make_environment(root)
        yield version
    finally:
        with contextlib.suppress(Exception):
            version.run("down")
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(root.parent, ignore_errors=True)


def make_environment(root: Path) -> None:
    """Create `.venv` with the code of the checkout and the libraries of this environment.

    The libraries are hard links: confined services may read only what is in their own environment.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    (site,) = (root / ".venv/lib").glob("python3*/site-packages")
    libraries = Path(pytest.__file__).parents[1]
    site.rmdir()
    shutil.copytree(
        libraries,
        site,
        copy_function=os.link,
        ignore=shutil.ignore_patterns("*.pth"),
        symlinks=True,
    )
    places = [*root.glob("libs/*"), *root.glob("services/*"), root / "deploy/local"]
    (site / "choir.pth").write_text("".join(f"{place}\n" for place in places))
    os.link(Path(sys.prefix) / "bin/nats-server", root / ".venv/bin/nats-server")
    program = root / ".venv/bin/choirctl"
    program.write_text(f"#!{root}/.venv/bin/python\nfrom choirctl.__main__ import main\nmain()\n")
    program.chmod(0o755)


async def talk(version: Version, texts: list[str], stop: asyncio.Event) -> None:
    """Send messages until told to stop; a message counts once it was accepted."""
    async with console_user(version.stack.endpoint) as user:
        while not stop.is_set():
            with contextlib.suppress(AssertionError):
                texts.append(await user.says(f"message {len(texts)}", patience_s=PATIENCE_S))
            await asyncio.sleep(0.5)


async def check_conversation(version: Version, accepted: list[str]) -> None:
    """Every accepted message is in a log, every log verifies, and the agent answers."""
    async with console_user(version.stack.endpoint) as user:
        await user.wait_for_answer(await user.says("still there?"), PATIENCE_S)
    seen: set[str] = set()
    for row in await sessions_of(version.stack):
        found = await verify(version.stack, row["session_id"])
        assert found.ok, found.reason
        text = await asyncio.to_thread(
            version.run, "session", "events", row["session_id"], "--json"
        )
        seen.update(it for it in accepted if it in text)
    assert seen == set(accepted)


def migrations_of(version: Version) -> str:
    rows = json.loads(version.run("db", "status", "--json"))["schemas"]
    return str(next(row["revision"] for row in rows if row["schema"] == "choir_control"))


async def kill_in(version: Version, command: subprocess.Popen[str], step: str) -> None:
    """Kill an upgrade when it is in a step, or has ended it."""
    deadline = time.monotonic() + PATIENCE_S
    while command.poll() is None and not version.is_in(step):
        assert time.monotonic() < deadline, step
        await asyncio.sleep(0.01)
    command.kill()
    command.communicate()


async def test_upgrades_killed_in_each_step_complete_under_traffic() -> None:
    with checkout("HEAD") as version:
        await asyncio.to_thread(version.run, "up", "--detach")
        accepted, stop = list[str](), asyncio.Event()
        talking = asyncio.create_task(talk(version, accepted, stop))
        for number, step in enumerate(FORWARD[2:]):
            commit = version.commit_next(number)
            command = version.start("upgrade", "--from", f"git:{commit}", "--yes")
            await kill_in(version, command, step)
            # every other time by `up`, which continues it, too
            words = ("up", "--detach") if number % 2 else ("upgrade", "--yes")
            await asyncio.to_thread(version.run, *words)
            assert version.record()["outcome"] == "done", step
            assert version.git("rev-parse", "HEAD") == commit
        stop.set()
        await talking
        await check_conversation(version, accepted)
        print(f"{len(FORWARD) - 2} upgrades with kills, {len(accepted)} messages")

        # the old version refuses the new database, and the backup brings it back
        backup = version.record()["backup"]
        await asyncio.to_thread(version.run, "down")
        version.git("reset", "-q", "--hard", "HEAD~1")
        assert backup in "".join(version.run("up", "--detach", code=1).split("\n"))
        await asyncio.to_thread(version.run, "backup", "restore", backup, "--replace")
        await asyncio.to_thread(version.run, "up", "--detach")
        await check_conversation(version, [])


async def test_a_version_that_does_not_start_is_undone() -> None:
    with checkout("HEAD") as version:
        await asyncio.to_thread(version.run, "up", "--detach")
        async with console_user(version.stack.endpoint) as user:
            first = await user.says("before")
            await user.wait_for_answer(first, PATIENCE_S)
        old, revision = version.git("rev-parse", "HEAD"), migrations_of(version)
        commit = version.commit_next(broken=True)
        said = await asyncio.to_thread(
            version.run, "upgrade", "--from", f"git:{commit}", "--yes", code=1
        )
        assert "in the step start" in " ".join(said.split())
        assert version.record()["outcome"] == "rolled-back"
        assert version.git("rev-parse", "HEAD") == old
        assert migrations_of(version) == revision
        await check_conversation(version, [first])


async def test_a_server_elsewhere_is_put_back_and_a_killed_upgrade_of_it_completed() -> None:
    """The server's user creates roles and schemas, but no databases."""
    async with running_postgres() as server, connection(server.dsn) as admin:
        await make_alice(admin)
        with checkout("HEAD") as version:
            home = version.stack.home
            create_state_directory(home)
            name_server(home, host=server.dsn.partition("host=")[2], user="alice")
            set_secret(home, PASSWORD)
            await asyncio.to_thread(version.run, "up", "--detach")
            async with console_user(version.stack.endpoint) as user:
                first = await user.says("before")
                await user.wait_for_answer(first, PATIENCE_S)
            old, revision = version.git("rev-parse", "HEAD"), migrations_of(version)
            commit = version.commit_next(broken=True)
            words = ("upgrade", "--from", f"git:{commit}", "--yes")
            said = await asyncio.to_thread(version.run, *words, code=1)
            assert "in the step start" in " ".join(said.split())
            assert version.record()["outcome"] == "rolled-back"
            assert version.git("rev-parse", "HEAD") == old
            assert migrations_of(version) == revision
            assert await admin.fetchval("SELECT to_regclass('choir_control.next_0')") is None
            await check_conversation(version, [first])

            commit = version.commit_next(1)
            command = version.start("upgrade", "--from", f"git:{commit}", "--yes")
            await kill_in(version, command, "migrate")
            await asyncio.to_thread(version.run, "up", "--detach")
            assert version.record()["outcome"] == "done"
            assert migrations_of(version).startswith("9001")
            assert not [*(home / "upgrade").glob("*.dump")]
            await check_conversation(version, [first])
            await asyncio.to_thread(version.run, "down")


async def test_an_earlier_version_from_the_history_is_upgraded() -> None:
    with checkout(EARLIER) as earlier, checkout("HEAD") as newer:
        await asyncio.to_thread(earlier.run, "up", "--detach")
        accepted, stop = list[str](), asyncio.Event()
        talking = asyncio.create_task(talk(earlier, accepted, stop))
        while len(accepted) < 5:
            await asyncio.sleep(0.1)
        newer.stack = earlier.stack
        begun = time.monotonic()
        await asyncio.to_thread(newer.run, "upgrade", "--from", "installed", "--yes")
        stop.set()
        await talking
        await check_conversation(newer, accepted)
        print(f"{EARLIER} upgraded in {time.monotonic() - begun:.0f} s")


async def test_a_home_of_a_year_is_upgraded_while_somebody_writes() -> None:
    with checkout(EARLIER) as earlier, checkout("HEAD") as newer:
        await asyncio.to_thread(earlier.run, "up", "--detach")
        await live(earlier, DAYS)
        size = await asyncio.to_thread(megabytes, earlier.stack.home)
        accepted, stop = list[str](), asyncio.Event()
        talking = asyncio.create_task(talk(earlier, accepted, stop))
        newer.stack = earlier.stack
        begun = time.monotonic()
        await asyncio.to_thread(newer.run, "upgrade", "--from", "installed", "--yes")
        took = time.monotonic() - begun
        stop.set()
        await talking
        async with console_user(newer.stack.endpoint) as user:
            await user.wait_for_answer(await user.says("still there?"), PATIENCE_S)
        for row in await sessions_of(newer.stack):
            assert (await verify(newer.stack, row["session_id"])).ok
        words = ("memory", "search", "main", "otter1x7", "--json")
        found = await asyncio.to_thread(newer.run, *words)
        assert "otter1x7" in found
        print(f"{EARLIER}, {DAYS} sessions, {size} MB: upgraded in {took:.0f} s")


async def live(version: Version, days: int) -> None:
    """Spend days with the agent: a session each, and every message answered."""
    async with (
        console_user(version.stack.endpoint) as user,
        make_client(version.stack.endpoint, timeout_s=PATIENCE_S) as client,
    ):
        for day in range(days):
            texts = [f"I met otter{day}x{number}." for number in range(MESSAGES_A_DAY)]
            sent = [await user.says(text, patience_s=PATIENCE_S) for text in texts]
            for inbox_id in sent:
                await user.wait_for_answer(inbox_id, PATIENCE_S)
            (await client.post("/v1/agents/main/restart")).raise_for_status()


def megabytes(place: Path) -> int:
    files = (it.lstat() for it in place.rglob("*"))
    return sum(it.st_blocks * 512 for it in files) // 1_000_000
