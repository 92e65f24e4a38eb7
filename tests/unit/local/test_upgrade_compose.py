"""Upgrades of docker compose on a simulated machine, killed before and after each of its commands."""

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.errors import ChoirError, Conflict, InvalidRequest, StartupError
from choir_local.home import Home
from choir_local.upgrade import programs
from choir_local.upgrade.code import code_source
from choir_local.upgrade.compose_images import with_version
from choir_local.upgrade.compose_steps import ComposeSteps
from choir_local.upgrade.record import UpgradeRecord, UpgradeRecordFile, UpgradeVersions
from choir_local.upgrade.sequence import UpgradeSequence
from choir_local.version_record import version_file

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
            case ["config", *_] | [*_, "config", _]:
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

    def _running_version(self) -> str:
        (version,) = {self.tags[f"{it}:local"] for it in CHOIR}
        return version

    def _start(self) -> None:
        version = self._running_version()
        assert self.databases["choir"] == version == self.commit, (
            "a version on the other's database"
        )
        self.up |= {"postgres", "nats", "control", "memory"}
        self.runs = {"control": version, "memory": version}

    def _choirctl(self, words: list[str]) -> None:
        assert "postgres" in self.up and not self.leftover
        if "migrate" in words:
            assert not self.runs and self.databases["choir_before_upgrade"] == "old"
            self.databases["choir"] = self._running_version()
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


PUBLISHED = [f"registry.example/{it}" for it in CHOIR]
NEXT_SERVICE = "registry.example/choir-next"
"""An image that only the new version's compose file has."""


@dataclass
class PublishedMachine(Machine):
    """The same with images of a registry, whose version is in `.env`."""

    version: str = "1.0"
    """What CHOIR_VERSION is for the command at work."""
    revision: str = "new"
    """The commit that the label of the new images names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tags = {f"{it}:1.0": "old" for it in PUBLISHED} | {"nats:2": "nats"}
        self.env_file.write_text("KEY=x\nCHOIR_VERSION=1.0\nCHOIR_IMAGES=registry.example/choir-\n")

    @property
    def env_file(self) -> Path:
        return self.home.parent / ".env"

    @property
    def tag(self) -> str:
        (tag,) = re.findall(r"(?m)^CHOIR_VERSION=(.*)$", self.env_file.read_text())
        return str(tag)

    async def run(
        self,
        *command: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        within: timedelta = timedelta(minutes=1),
    ) -> str:
        self.version = (env or {}).get("CHOIR_VERSION") or self.tag
        return await super().run(*command, cwd=cwd, env=env, within=within)

    def _is_new(self) -> bool:
        return self.tag == "2.0"

    def _running_version(self) -> str:
        return {self.tags[f"{it}:{self.tag}"] for it in PUBLISHED}.pop()

    def _docker(self, words: list[str]) -> str:
        match words:
            case ["pull", "--quiet", image]:
                assert image.endswith(":2.0"), "only what is not here is pulled"
                self.tags[image] = "new"
                return ""
            case ["image", "inspect", *_, image]:
                assert image in self.tags
                return self.revision
        return super()._docker(words)

    def _config(self) -> str:
        config = json.loads(super()._config())
        for service in config["services"].values():
            if service.pop("build", None):
                name = service["image"].removesuffix(":local")
                service["image"] = f"registry.example/{name}:{self.version}"
        if self.version == "2.0":
            config["services"]["next"] = {"image": f"{NEXT_SERVICE}:2.0"}
        return json.dumps(config)


@pytest.fixture
def published(machine: Machine) -> PublishedMachine:
    return PublishedMachine(machine.home)


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
    source = "image:2.0" if isinstance(machine, PublishedMachine) else "x"
    code = UpgradeVersions(kind="compose", source=source, directory=str(machine.home.parent))
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
    assert machine.commit == machine.databases["choir"] == machine._running_version() == version
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


async def test_published_images_are_upgraded_and_a_kill_at_any_command_changes_nothing(
    published: PublishedMachine,
) -> None:
    env = published.env_file.read_text()
    assert (await upgrade(published)).outcome == "done"
    check(published, "new")
    assert published.env_file.read_text() == env.replace("=1.0", "=2.0")
    assert f"{NEXT_SERVICE}:2.0" in published.tags
    assert [it.name for it in (published.home / "upgrade").iterdir()] == ["upgrade.json"]
    for broken in ("", "migrate"):
        for number in range(1, published.number + 1, 2):
            again = PublishedMachine(published.home, broken=broken, kill_at=number)
            record = await upgrade(again)
            check(again, "new" if record.outcome == "done" else "old")
            assert again.env_file.read_text() == env or record.outcome == "done"
            assert record.outcome != "done" or not broken


@pytest.mark.parametrize(
    ("source", "revision", "env", "reason"),
    [
        ("git", "new", "CHOIR_VERSION=1.0", "image:VERSION"),
        ("image:1.0", "new", "CHOIR_VERSION=1.0", "is the version in use"),
        ("image:2.0", "", "CHOIR_VERSION=1.0", "has no label"),
        ("image:2.0", "new", "", "in the shell"),
    ],
)
async def test_published_images_that_could_not_be_put_back_are_refused(
    published: PublishedMachine,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    revision: str,
    env: str,
    reason: str,
) -> None:
    published.revision = revision
    if not env:
        monkeypatch.setenv("CHOIR_VERSION", "1.0")
    code = UpgradeVersions(kind="compose", source=source, directory=str(published.home.parent))
    record = UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=True)
    with pytest.raises(ChoirError, match=reason):
        await ComposeSteps(Home(published.home), record, published.run).run("prepare", record)
    check(published, "old")


async def test_built_images_refuse_the_version_of_published_ones(machine: Machine) -> None:
    code = UpgradeVersions(kind="compose", source="image:2.0", directory=str(machine.home.parent))
    record = UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=True)
    with pytest.raises(InvalidRequest, match="Name a commit"):
        await ComposeSteps(Home(machine.home), record, machine.run).run("prepare", record)


def test_a_missing_version_is_added_to_the_settings() -> None:
    assert with_version("", "2.0") == "CHOIR_VERSION=2.0\n"
    assert (
        with_version("A=1\n#CHOIR_VERSION=1\n", "2") == "A=1\n#CHOIR_VERSION=1\nCHOIR_VERSION=2\n"
    )
    assert with_version("export CHOIR_VERSION = 1\nB=2\n", r"\1") == "CHOIR_VERSION=\\1\nB=2\n"


@pytest.mark.parametrize("kind", ["machine", "published"])
async def test_a_choirctl_that_is_older_than_the_containers_upgrades_them(
    request: pytest.FixtureRequest, kind: str
) -> None:
    machine: Machine = request.getfixturevalue(kind)
    version = version_file(Home(machine.home))
    version.parent.mkdir(exist_ok=True)
    newest = {"choir_control.migrations": "9999_from_a_newer_version.sql"}
    version.write_text(json.dumps({"choir": "9.9.9", "newest": newest}))
    assert (await upgrade(machine)).outcome == "done"
    check(machine, "new")


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
