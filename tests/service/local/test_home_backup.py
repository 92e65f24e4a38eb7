"""`choirctl backup` on real homes: round trip, secrets, what it refuses, hostile archives, retention."""

import io
import json
import os
import shutil
import tarfile
import tracemalloc
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest
from choir_common.secret_file import edit_secret_file
from choir_common.wire.backup_config import BackupConfig, BackupRetention
from choir_local.backup import archive
from choir_local.backup.age import CHUNK, AgeReader, AgeWriter
from choir_local.backup.archive import BackupWriter, read_archive
from choir_local.backup.extraction import BackupFileWriter
from choir_local.backup.manifest import BackupHead, BackupManifest
from choir_local.backup.restore import restore_home
from choir_local.backup.storage import (
    backup_name,
    list_backups,
    prune_backups,
    remove_partial_files,
    select_kept,
)
from choir_local.backup_schedule import is_due
from choir_local.settings import LocalSettings
from tests.service.local.test_database import CANARY, fill
from tests.support.home import make_short_directory
from tests.support.shell import ChoirctlRunner

PHRASE = b"correct horse battery"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HEAD = BackupHead(format=1, choir="0.1.0", made_at=NOW, home="/old/home")
# written by rage (the Rust implementation of age) with the passphrase "hunter2hunter"
FOREIGN = (
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBZcFNMMHNyKzN1bTFVa0NYWWRNZVFBIDE1ClNobUpyM2kzMVRwOUVaSk4wZ1lw"
    "UGUvVlNyNTg2TklsSHRsbWk0elkyNXcKLS0tIG44enF4VG1ZZmlYbUMvQ2t0TEdOeUtDUWxKTWx6Q28xV2R6eVdBcFJCVUEKp/W+vV4u"
    "aRCOwgh5Vx73IyWl0zuzFDAh0c0E0M3qNoh6rPQBTTCIJjvhFw60egs="
)


@pytest.fixture
def homes() -> Iterator[Path]:
    root = make_short_directory("choir-hb-")
    yield root
    shutil.rmtree(root, ignore_errors=True)


async def fill_home(root: Path) -> Path:
    """Make a home with a log, secrets, identity, TLS and workspaces inside and outside; return it."""
    home = root / "a"
    await fill(home, events=30)
    config = {
        "agents": {},
        "workspaces": {
            "main": {"path": str(home / "workspaces/main")},
            "far": {"path": str(root / "far")},
        },
    }
    (home / "config.json").write_text(json.dumps(config))
    for path, text in {
        "workspaces/main/notes/ä b.txt": "kept",
        "agents/main/identity/SOUL.md": "calm",
        "tls/ca.key": f"private {CANARY}",
        "run/stack.json": "{}",
    }.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    (home / "workspaces/main/run.sh").write_text("#!/bin/sh\n")
    (home / "workspaces/main/run.sh").chmod(0o755)
    (home / "workspaces/main/empty").mkdir()
    (home / "workspaces/main/link").symlink_to("/usr/bin/env")
    os.mkfifo(home / "workspaces/main/pipe")
    with (home / "workspaces/main/huge").open("wb") as file:
        file.truncate(1 << 40)
    (root / "far").mkdir()
    (root / "far/far.txt").write_text("far away")
    (root / "phrase").write_bytes(PHRASE + b"\n")
    return home


async def test_a_home_comes_back_elsewhere_with_everything(homes: Path) -> None:
    home = await fill_home(homes)
    shell, out = ChoirctlRunner(home), homes / "out"
    out.mkdir()
    phrase = ("--passphrase-file", str(homes / "phrase"))
    report = shell.data("backup", "create", "--out", str(out), *phrase)
    skipped = {it.split(":")[0].rpartition("/")[2] for it in report["skipped"]}
    assert skipped == {"huge", "pipe"}
    file = Path(report["file"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in out.iterdir()] == [file.name]
    assert CANARY.encode() not in file.read_bytes(), "no secret is on the disk in plain text"
    assert shell.data("backup", "verify", str(file), *phrase)["secrets"]
    assert "needs a passphrase" in shell.fails(2, "backup", "verify", str(file))

    other = homes / "elsewhere"
    there = ChoirctlRunner(other)
    assert there.data("backup", "restore", str(file), *phrase)["events"] == 30
    assert (other / "workspaces/main/notes/ä b.txt").read_text() == "kept"
    assert (other / "agents/main/identity/SOUL.md").read_text() == "calm"
    assert (other / "workspaces/main/link").readlink() == Path("/usr/bin/env")
    assert (other / "workspaces/main/run.sh").stat().st_mode & 0o777 == 0o755
    assert (other / "workspaces/main/empty").is_dir()
    assert json.loads((other / "secrets.json").read_text())["openrouter-key"] == CANARY
    assert (other / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert CANARY in (other / "tls/ca.key").read_text()
    paths = json.loads((other / "config.json").read_text())["workspaces"]
    assert paths["main"]["path"] == str(other / "workspaces/main")
    assert (Path(paths["far"]["path"]) / "far.txt").read_text() == "far away"
    assert Path(paths["far"]["path"]).is_relative_to(other)
    assert all(each["missing"] == [] for each in there.data("db", "status")["schemas"])
    assert sorted(path.name for path in homes.iterdir()) == [
        "a",
        "elsewhere",
        "far",
        "out",
        "phrase",
    ]

    assert "--replace" in there.fails(5, "backup", "restore", str(file), *phrase)
    (other / "mine.txt").write_text("not in the backup")
    there.succeeds("backup", "restore", str(file), *phrase, "--replace")
    (aside,) = homes.glob("elsewhere.before-restore-*")
    assert (aside / "mine.txt").exists() and not (other / "mine.txt").exists()


async def test_without_a_passphrase_there_are_no_secrets_in_a_backup(homes: Path) -> None:
    home = await fill_home(homes)
    shell = ChoirctlRunner(home)
    assert "--without-secrets" in shell.fails(2, "backup", "create")
    made = shell.data("backup", "create", "--without-secrets", "--without-workspaces")
    file = Path(made["file"])
    assert file.parent == home / "backups" and file.name.endswith(".tar")
    assert CANARY.encode() not in file.read_bytes()
    taken = shell.fails(5, "backup", "create", "--without-secrets", "--out", str(file))
    assert "exists" in taken
    # into the same home: its secrets, workspaces and backups stay
    shell.succeeds("backup", "restore", str(file), "--replace")
    assert json.loads((home / "secrets.json").read_text())["openrouter-key"] == CANARY
    assert (home / "workspaces/main/notes/ä b.txt").exists() and file.exists()
    shell.succeeds("db", "status")
    with edit_secret_file(home / "secrets.json") as secrets:
        secrets["backup-passphrase"] = PHRASE.decode()
    assert shell.data("backup", "create")["file"].endswith(".tar.age")
    listed = shell.data("backup", "list")["backups"]
    assert sorted(each["encrypted"] for each in listed) == [False, True]
    assert "no section" in shell.fails(3, "backup", "prune")
    config = json.loads((home / "config.json").read_text())
    (home / "config.json").write_text(json.dumps({**config, "backup": {}}))
    assert shell.data("backup", "prune") == {"removed": []}


async def test_a_running_home_or_a_changed_backup_is_refused_untouched(homes: Path) -> None:
    home = await fill_home(homes)
    file, phrase = homes / "b.age", ("--passphrase-file", str(homes / "phrase"))
    ChoirctlRunner(home).succeeds("backup", "create", "--out", str(file), *phrase)
    whole = file.read_bytes()
    settings = LocalSettings(home=homes / "new")
    for changed in (
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
        whole[: -(len(whole) - 300) % CHUNK or -CHUNK],
        b"",
        b"not a backup at all",
    ):
        (homes / "changed").write_bytes(changed)
        with pytest.raises(InvalidRequest):
            await restore_home(
                settings, homes / "changed", PHRASE, replace=False, show_progress=lambda _: None
            )
    assert not (homes / "new").exists()
    assert not list(homes.glob(".new*")), "nothing is left beside it"


def build(write: Callable[[BackupWriter], None], forge: Callable[[tarfile.TarFile], None]) -> bytes:
    """Return an archive with a right manifest for what `write` adds, after what `forge` adds."""
    out = io.BytesIO()
    writer = BackupWriter(out, HEAD)
    writer.add_bytes("database.dump/000000", b"PGDMP")
    write(writer)
    forge(writer._tar)
    manifest = BackupManifest(
        postgres="18", roles=[], schemas={}, secrets=True, workspaces=True, files=writer.files
    )
    writer.finish(manifest)
    return out.getvalue()


def raw(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, target: str = ""
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, target
    return info


HOSTILE: dict[str, Callable[[BackupWriter], None]] = {
    "up": lambda it: it.add_bytes("home/../../evil", b"x"),
    "absolute": lambda it: it.add_bytes("/evil", b"x"),
    "outside the parts": lambda it: it.add_bytes("evil", b"x"),
    "up in a workspace's name": lambda it: it.add_bytes("outside/../evil", b"x"),
    "a cluster of its own": lambda it: it.add_bytes("home/data/postgres/pg_hba.conf", b"x"),
    "in the directory of sockets": lambda it: it.add_bytes("home/socks/choird.sock", b"x"),
    "link for Choir": lambda it: it.add_link("home/repos", "/etc"),
    "link up": lambda it: it.add_link("home/agents/main", "../../../etc"),
    "workspaces themselves": lambda it: it.add_link("home/workspaces/main", "/etc"),
    "twice": lambda it: (it.add_bytes("home/a", b"1"), it.add_bytes("home/a", b"2")),  # type: ignore[dict-item]
    "link and file": lambda it: (  # type: ignore[dict-item]
        it.add_link("home/workspaces/m/x", "/etc"),
        it.add_bytes("home/workspaces/m/x/passwd", b"x"),
    ),
    "link below a link": lambda it: (  # type: ignore[dict-item]
        it.add_link("home/workspaces/m/x", "/etc"),
        it.add_link("home/workspaces/m/x/y", "/etc"),
    ),
    "piece out of order": lambda it: it.add_bytes("database.dump/000007", b"x"),
}
FORGED: dict[str, tarfile.TarInfo] = {
    "hard link": raw("home/hard", tarfile.LNKTYPE, target="/etc/passwd"),
    "device": raw("home/null", tarfile.CHRTYPE),
    "pipe": raw("home/pipe", tarfile.FIFOTYPE),
    "sparse": raw("home/sparse", tarfile.GNUTYPE_SPARSE, 10),
    "long name of 4 GB": raw("././@LongLink", tarfile.GNUTYPE_LONGNAME, 1 << 32),
    "extended header of 4 GB": raw("x", tarfile.XHDTYPE, 1 << 32),
    "global header": raw("x", tarfile.XGLTYPE, 10),
    "not in the manifest": raw("home/extra"),
    "larger than the file": raw("home/large", size=1 << 40),
}


def extract(data: bytes, root: Path) -> None:
    extraction = BackupFileWriter(root, root / "dump")
    read_archive(io.BytesIO(data), extraction.take)
    extraction.create_links()


@pytest.mark.parametrize("attack", [*HOSTILE, *FORGED])
def test_a_hostile_archive_is_refused(attack: str, tmp_path: Path) -> None:
    root = tmp_path / "deep" / "root"
    root.mkdir(parents=True)
    write = HOSTILE.get(attack, lambda _: None)
    info = FORGED.get(attack)
    data = build(write, lambda tar: tar.fileobj.write(info.tobuf()) if info else None)  # type: ignore[union-attr]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest):
            extract(data, root)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    outside = [path for path in tmp_path.rglob("*") if root not in (path, *path.parents)]
    assert outside == [root.parent]


def test_an_honest_archive_is_taken_and_a_newer_one_is_not(tmp_path: Path) -> None:
    extract(build(lambda it: it.add_bytes("home/a/b", b"x" * 3_000_000), lambda _: None), tmp_path)
    assert (tmp_path / "a/b").stat().st_size == 3_000_000
    newer = build(lambda _: None, lambda _: None).replace(b'"format": 1', b'"format": 9', 1)
    with pytest.raises(InvalidRequest, match="newer format"):
        extract(newer, tmp_path)
    other = build(lambda it: it.add_bytes("home/c", b"right"), lambda _: None)
    with pytest.raises(InvalidRequest, match="checksum"):
        extract(other.replace(b"right", b"wrong", 1), tmp_path)
    assert archive.check_name("home/a b/ü") == "home/a b/ü"


def test_encryption_is_age_and_every_byte_counts() -> None:
    assert (
        AgeReader(io.BytesIO(b64decode(FOREIGN)), b"hunter2hunter").read(99) == b"written by rage"
    )
    out = io.BytesIO()
    writer = AgeWriter(out, PHRASE, work=4)
    data = os.urandom(2 * CHUNK)
    writer.write(data)
    writer.finish()
    sealed = out.getvalue()

    def opened(sealed: bytes, phrase: bytes = PHRASE) -> bytes:
        reader, whole = AgeReader(io.BytesIO(sealed), phrase), b""
        while block := reader.read(CHUNK):
            whole += block
        return whole

    assert opened(sealed) == data
    cut = len(sealed) - CHUNK - 16
    for place in (*range(0, 200, 7), cut - 1, cut, len(sealed) - 1):
        with pytest.raises(InvalidRequest):
            opened(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
    for shorter in (sealed[:cut], sealed[:-1], sealed[:100], sealed + b"x"):
        with pytest.raises(InvalidRequest):
            opened(shorter)
    with pytest.raises(InvalidRequest):
        opened(sealed, b"another passphrase")
    with pytest.raises(InvalidRequest, match="2\\^30"):
        opened(sealed.replace(b" 4\n", b" 30\n", 1))


def test_retention_keeps_the_newest_of_each_period(tmp_path: Path) -> None:
    times = [NOW - timedelta(hours=12 * number) for number in range(800)]
    kept = sorted(select_kept(times, BackupRetention()), reverse=True)
    days = [(NOW - at).days for at in kept]
    assert days[:8] == [0, 0, 1, 2, 3, 4, 5, 6] and len(days) == 2 + 6 + 3 + 5
    assert days[-1] > 150
    for at in times[:10]:
        (tmp_path / backup_name(at, "scheduled", encrypted=True)).touch()
    (tmp_path / backup_name(NOW, encrypted=False)).touch()
    killed, growing = (tmp_path / f".choir-{n}-scheduled.tar.age.partial" for n in (1, 2))
    for file, age in ((killed, timedelta(hours=2)), (growing, timedelta(minutes=1))):
        file.touch()
        os.utime(file, ((NOW - age).timestamp(),) * 2)
    remove_partial_files(tmp_path, NOW)
    assert growing.exists() and not killed.exists()
    (tmp_path / "mine.txt").touch()
    rule = BackupRetention(last=1, daily=2, weekly=0, monthly=0)
    assert len(prune_backups(tmp_path, rule)) == 8
    assert sorted(it.reason for it in list_backups(tmp_path)) == ["", "scheduled", "scheduled"]
    assert (tmp_path / "mine.txt").exists()
    daily = BackupConfig(every="1d")
    assert is_due(None, daily, NOW) and is_due(NOW + timedelta(hours=1), daily, NOW)
    assert not is_due(NOW - timedelta(hours=23), daily, NOW)
    assert is_due(NOW - timedelta(days=1), daily, NOW)
