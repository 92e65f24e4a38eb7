"""`choirctl db` on a real embedded database: status, migrate, backup, restore, and what they refuse."""

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choir_common.eventlog.chain import LogHead, link_event
from choir_common.eventlog.key_file import load_keys
from choir_common.postgres.pool import Database
from choir_common.wire.events import UserMessageStarted
from choir_local.database import schemas
from choir_local.database.connection import open_database
from choir_local.settings import LocalSettings
from tests.support.home import make_short_directory
from tests.support.preloaded_choirctl import run_choirctl

CANARY = "sk-canary-of-the-backup"


@pytest.fixture
def homes() -> Iterator[Path]:
    # a Unix socket path takes 107 bytes: pytest's own temporary directories are too deep
    root = make_short_directory("choir-db-")
    yield root
    shutil.rmtree(root, ignore_errors=True)


def ctl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_choirctl(*words, home=home)


async def fill(home: Path, events: int = 700) -> None:
    """Make a home with one session's log, one agent's memory and a secret."""
    home.mkdir()
    (home / "secrets.json").write_text(json.dumps({"openrouter-key": CANARY}))
    (home / "config.json").write_text('{"agents": {}, "workspaces": {}}')
    async with (
        open_database(LocalSettings(home=home)) as reached,
        reached.database() as database,
    ):
        await write_log(database, events)


async def write_log(database: Database, events: int) -> None:
    """Make one session's log and one agent's memory in an empty database."""
    head, rows = LogHead(), []
    for number in range(events):
        words = UserMessageStarted(inbox_id=f"in_{number}", dm="console", text="hé", turn_id="t")
        event = link_event(head, "ses_1", "edge", words, datetime.now(UTC))
        head = LogHead(event.rev, event.hash)
        rows.append(event)
    await schemas.migrate_all(database)
    await database.execute(
        "INSERT INTO choir_control.sessions (session_id, agent_id, status, epoch, head_rev,"
        " head_hash, workspace, llm, dm, gateway) VALUES"
        " ('ses_1', 'main', 'crashed', 1, $1, $2, 'main', 'default', 'console', 'console')",
        head.rev,
        head.hash,
    )
    async with database.transaction() as held:
        await held.executemany(
            "INSERT INTO choir_control.session_events (session_id, rev, lane, type, payload, at,"
            " hash_prev, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            [
                (
                    e.session_id,
                    e.rev,
                    e.lane,
                    e.type,
                    json.dumps(e.payload),
                    e.at,
                    e.hash_prev,
                    e.hash,
                )
                for e in rows
            ],
        )
    await database.execute('CREATE ROLE "choir_main" NOLOGIN NOINHERIT')
    await database.execute(
        "INSERT INTO choir_memory.embedding_models (name, dimensions, state)"
        " VALUES ('m', 3, 'active');"
        " INSERT INTO choir_memory.spaces (agent_id) VALUES ('main')"
    )
    await schemas.migrate_all(database)


async def test_a_backup_restored_elsewhere_is_the_same_and_verifies(homes: Path) -> None:
    await fill(homes / "a")
    file = homes / "choir.backup"
    done = ctl(homes / "a", "db", "backup", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["parts"]) == {"config.json", "database.dump"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert CANARY.encode() not in file.read_bytes()
    assert [path.name for path in homes.iterdir() if path.name.startswith(".")] == []

    there = ctl(homes / "b", "db", "restore", str(file), "--json")
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout) == {"sessions": 1, "events": 700, "kept": []}
    status = json.loads(ctl(homes / "b", "db", "status", "--json").stdout)["schemas"]
    assert {each["schema"] for each in status} == {"choir_control", "choir_memory", "choir_main"}
    assert all(each["missing"] == [] for each in status)
    assert (homes / "b" / "config.json").read_text() == (homes / "a" / "config.json").read_text()

    again = ctl(homes / "b", "db", "restore", str(file))
    assert again.returncode == 5
    assert "--yes" in again.stderr
    assert ctl(homes / "b", "db", "restore", str(file), "--force").returncode == 0
    assert ctl(homes / "a", "db", "backup", str(file)).returncode == 5


@pytest.mark.nightly  # test_retention.py verifies such a log, the test above restores
async def test_a_log_that_retention_erased_does_not_stand_in_the_way_of_a_restore(
    homes: Path,
) -> None:
    await fill(homes / "a", events=20)
    erase = """
        INSERT INTO choir_control.erased_logs (session_id, hashes)
            SELECT 'ses_1', string_agg(decode(hash, 'hex'), '' ORDER BY rev)
            FROM choir_control.session_events;
        DELETE FROM choir_control.session_events;
    """
    async with (
        open_database(LocalSettings(home=homes / "a")) as reached,
        reached.database() as database,
    ):
        await database.execute(erase)
    file = homes / "erased.backup"
    assert ctl(homes / "a", "db", "backup", str(file)).returncode == 0
    there = ctl(homes / "b", "db", "restore", str(file), "--json")
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout) == {"sessions": 1, "events": 20, "kept": []}


@pytest.mark.nightly  # test_home_backup.py keeps secrets out
async def test_secrets_travel_only_when_they_are_asked_for(homes: Path) -> None:
    await fill(homes / "a", events=1)
    keys = load_keys(homes / "a" / "audit-keys.json").keys
    file = homes / "with.backup"
    assert ctl(homes / "a", "db", "backup", str(file), "--with-secrets").returncode == 0
    assert ctl(homes / "b", "db", "restore", str(file)).returncode == 0
    before = json.loads((homes / "a" / "secrets.json").read_text())
    after = json.loads((homes / "b" / "secrets.json").read_text())
    assert after["openrouter-key"] == CANARY
    assert load_keys(homes / "b" / "audit-keys.json").keys == keys
    assert after["postgres-admin"] != before["postgres-admin"]
    assert ctl(homes / "b", "db", "status").returncode == 0


async def test_a_log_that_does_not_verify_replaces_nothing(homes: Path) -> None:
    await fill(homes / "a", events=20)
    async with (
        open_database(LocalSettings(home=homes / "a")) as reached,
        reached.database() as database,
    ):
        await database.execute(
            "UPDATE choir_control.session_events SET payload = '{\"x\": 1}' WHERE rev = 7"
        )
    file = homes / "bent.backup"
    assert ctl(homes / "a", "db", "backup", str(file)).returncode == 0
    refused = ctl(homes / "b", "db", "restore", str(file))
    assert refused.returncode == 1
    assert "event 7" in " ".join(refused.stderr.split())
    assert ctl(homes / "b", "db", "status", "--json").returncode == 0


async def test_a_damaged_or_foreign_file_is_told_and_changes_nothing(homes: Path) -> None:
    await fill(homes / "a", events=5)
    file = homes / "good.backup"
    assert ctl(homes / "a", "db", "backup", str(file)).returncode == 0
    whole = file.read_bytes()
    bent = homes / "bent.backup"
    middle = len(whole) // 2
    bent.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    for text in (bent.read_bytes(), whole[:middle], b"no backup", b""):
        bent.write_bytes(text)
        refused = ctl(homes / "b", "db", "restore", str(bent))
        assert refused.returncode == 2, refused.stderr
    newer = homes / "newer.backup"
    with tarfile.open(file) as old, tarfile.open(newer, "w") as tar:
        member = old.getmember("manifest.json")
        text = old.extractfile(member).read().replace(b'"format": 1', b'"format": 9')  # type: ignore[union-attr]
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    refused = ctl(homes / "b", "db", "restore", str(newer))
    assert refused.returncode == 2
    assert "newer" in refused.stderr
    assert ctl(homes / "b", "db", "restore", str(homes / "none")).returncode == 3
    assert not (homes / "b" / "data" / "postgres").exists()


def test_a_home_without_a_database_is_told_so(homes: Path) -> None:
    for words in (("status",), ("migrate",), ("backup", str(homes / "x"))):
        refused = ctl(homes / "none", "db", *words)
        assert refused.returncode == 3
        assert "no embedded database" in " ".join(refused.stderr.split())
    assert not (homes / "x").exists()
