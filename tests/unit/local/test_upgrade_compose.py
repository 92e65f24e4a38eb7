"""Upgrades of docker compose on a simulated machine, killed before and after each of its commands."""

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.errors import Conflict, InvalidRequest, StartupError
from choir_local.home import Home
from choir_local.upgrade import programs
from choir_local.upgrade.code import code_source
from choir_local.upgrade.compose_steps import ComposeSteps
from choir_local.upgrade.record import UpgradeRecord, UpgradeRecordFile, UpgradeVersions
from choir_local.upgrade.sequence import UpgradeSequence

CHOIR = ("choir-control", "choir-memory", "choir-tools")


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Machine:
    """git, docker and the database of one project; as strict as they are where an upgrade relies on it."""

    home: Path
    commit: str = "old"
    tags: dict[str, str] = field(
        default_factory=lambda: {f"{it}:local": "old" for it in CHOIR} | {"nats:2": "nats"}
    )
    up: set[str] = field(default_factory=lambda: {"postgres", "nats", "control", "memory"})
    runs: dict[str, str] = field(default_factory=dict)
    """The version of each container of Choir that runs."""
    databases: dict[str, str] = field(default_factory=lambda: {"choir": "old"})
    leftover: bool = False
    """Whether the container of a killed command is still there."""
    broken: str = ""
    """A word of the commands that fail."""
    kill_at: int = -1
    """The number of the command that is killed: every other three before their effect, and then after it."""
    number: int = 0

    def __post_init__(self) -> None:
        self.runs = {"control": "old", "memory": "old"}

    async def run(
        self,
        *command: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: timedelta = timedelta(minutes=1),
    ) -> str:
        words = [str(word) for word in command]
        self.number += 1
        dies = self.number == self.kill_at
        if dies and self.number // 3 % 2:
            raise Killed
        if self.broken and self.broken in words and self._is_new():
            raise StartupError(f"{self.broken} is broken")
        result = self._docker(words[1:]) if words[0] == "docker" else self._git(words)
        if dies:
            self.leftover = "run" in words
            raise Killed
        return result

    def _is_new(self) -> bool:
        return self.tags["choir-control:local"] == "new"

    def _git(self, words: list[str]) -> str:
        match words[1:]:
            case ["rev-parse", "HEAD"]:
                return self.commit
            case ["rev-parse", *_]:
                return "new"
            case ["merge-base", *_]:
                return "old"
            case ["reset", *_, commit]:
                self.commit = commit
            case ["archive", _, output, _]:
                with tarfile.open(output.partition("=")[2], "w"):
                    pass
        return ""

    def _docker(self, words: list[str]) -> str:
        match words:
            case ["compose", *rest]:
                return self._compose(rest)
            case ["image", "ls", *_]:
                return "\n".join(self.tags)
            case ["image", "rm", name]:
                del self.tags[name]
            case ["tag", old, new]:
                self.tags[new] = self.tags[old]
            case ["ps", *_, name] if name.startswith("--filter=name"):
                return "left" if self.leftover else ""
            case ["rm", "--force", "left"]:
                self.leftover = False
        return ""

    def _compose(self, words: list[str]) -> str:
        match words:
            case ["config", *_]:
                return self._config()
            case [*_, "build"]:
                self.tags |= {f"{it}:upgrade-next": "new" for it in CHOIR}
            case ["stop"]:
                self.up, self.runs = set(), {}
            case ["stop", *names]:
                assert "postgres" not in names
                self.up -= set(names)
                self.runs = {}
            case ["up", *_, "--no-recreate", "--no-deps", "postgres"]:
                self.up.add("postgres")
            case ["up", "--detach", "--no-build", "--wait", "--wait-timeout", _]:
                self._start()
            case ["run", *rest]:
                self._choirctl(rest)
            case ["exec", "-T", "postgres", "psql", *rest]:
                return self._psql(rest)
            case ["exec", "-T", "postgres", "df", *_]:
                return "Filesystem 1024-blocks Used Available\n/dev/sda 1 1 99000000 1% /"
            case ["exec", "-T", "control", *_]:
                assert "control" in self.up
        return ""

    def _config(self) -> str:
        services = {
            name: {"image": f"choir-{name}:local", "build": {"context": "."}}
            for name in ("control", "memory")
        }
        services["setup"] = {"image": "choir-tools:local", "build": {"context": "."}}
        services["nats"] = {"image": "nats:2"}
        services["control"]["environment"] = {"CHOIR_HOME": str(self.home)}
        return json.dumps({"name": "choir", "services": services})

    def _start(self) -> None:
        version = self.tags["choir-control:local"]
        assert {self.tags[f"{it}:local"] for it in CHOIR} == {version}, "images of two versions"
        assert self.databases["choir"] == version == self.commit, (
            "a version on the other's database"
        )
        self.up |= {"postgres", "nats", "control", "memory"}
        self.runs = {"control": version, "memory": version}

    def _choirctl(self, words: list[str]) -> None:
        assert "postgres" in self.up and not self.leftover
        if "migrate" in words:
            assert not self.runs and self.databases["choir_before_upgrade"] == "old"
            self.databases["choir"] = self.tags["choir-control:local"]
        if "backup" in words:
            path = Path(words[words.index("--out") + 1])
            assert not path.exists()
            path.write_text("backup")

    def _psql(self, words: list[str]) -> str:
        assert "postgres" in self.up
        for text in (words[n + 1] for n, word in enumerate(words) if word == "-c"):
            if text.startswith("DROP"):
                self.databases.pop(text.split('"')[1], None)
            elif text.startswith("CREATE"):
                assert not self.runs and text.split('"')[1] not in self.databases
                self.databases[text.split('"')[1]] = self.databases["choir"]
            elif text.startswith("ALTER"):
                assert not self.runs
                self.databases["choir_failed_upgrade"] = self.databases["choir"]
                self.databases["choir"] = self.databases.pop("choir_before_upgrade")
            elif "pg_database_size" in text:
                return "1000000"
            elif "datname" in text:
                return "\n".join(self.databases)
            elif "to_regclass" in text:
                return "t"
        return ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(programs, "REPEAT_S", 0.0)
    for name in ("VERIFY_WITHIN", "RESTART_WITHIN"):
        monkeypatch.setattr(f"choir_local.upgrade.compose_steps.{name}", timedelta(0))
    (tmp_path / "home").mkdir()
    return Machine(tmp_path / "home")


async def upgrade(machine: Machine, *, was_running: bool = True) -> UpgradeRecord:
    """Upgrade; after a kill continue, as the next `choirctl upgrade --compose` does."""
    home = Home(machine.home)
    code = UpgradeVersions(kind="compose", source="x", directory=str(machine.home.parent))
    record = UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=was_running)
    file = UpgradeRecordFile(home)

    def sequence() -> UpgradeSequence:
        return UpgradeSequence(file, ComposeSteps(home, record, machine.run), lambda _: None)

    try:
        return await sequence().run(record)
    except Killed:
        unfinished = file.read()
        assert unfinished is not None
        return await sequence().resume(unfinished)


def check(machine: Machine, version: str) -> None:
    assert machine.commit == machine.databases["choir"] == version
    assert {machine.tags[f"{it}:local"] for it in CHOIR} == {version}
    assert machine.runs == {"control": version, "memory": version}


async def test_an_upgrade_killed_at_any_command_is_completed(machine: Machine) -> None:
    await upgrade(machine)
    check(machine, "new")
    assert set(machine.databases) == {"choir"}
    assert not any("upgrade" in tag for tag in machine.tags), "no image is left"
    assert not (machine.home / "upgrade/code").exists()
    (backup,) = (machine.home / "backups").iterdir()
    assert backup.name.endswith("-upgrade.tar")
    for number in range(1, machine.number + 1):
        again = Machine(machine.home, kill_at=number)
        record = await upgrade(again)
        done = record.outcome == "done"
        assert done or record.step in ("prepare", "backup")
        check(again, "new" if done else "old")


@pytest.mark.parametrize("broken", ["migrate", "status", "--wait-timeout"])
async def test_a_version_that_fails_is_undone_also_if_that_is_killed(
    machine: Machine, broken: str
) -> None:
    machine.broken = broken
    record = await upgrade(machine)
    reason = "The last output of control: none" if broken == "--wait-timeout" else "is broken"
    assert record.outcome == "rolled-back" and reason in record.error
    check(machine, "old")
    # every fourth: the three cases differ little, and each kill costs some thirty durable writes
    for number in range(1 + len(broken) % 4, machine.number + 1, 4):
        again = Machine(machine.home, broken=broken, kill_at=number)
        await upgrade(again)
        check(again, "old")


async def test_containers_that_were_stopped_stay_stopped(machine: Machine) -> None:
    machine.up, machine.runs = set(), {}
    assert (await upgrade(machine, was_running=False)).outcome == "done"
    assert machine.commit == machine.databases["choir"] == "new" and not machine.up


async def test_what_is_not_this_installation_is_refused_unchanged(machine: Machine) -> None:
    other = machine.home.parent / "other"
    other.mkdir()
    steps = Machine(other)
    steps.home = machine.home
    home = Home(other)
    code = UpgradeVersions(kind="compose", source="x", directory=str(machine.home.parent))
    record = UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=True)
    with pytest.raises(Conflict, match="Give --home"):
        await ComposeSteps(home, record, steps.run).run("prepare", record)
    with pytest.raises(InvalidRequest, match="--compose"):
        code_source(code)
