"""The order of an upgrade on a simulated installation, killed before and after the effect of each step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_local.home import Home
from choir_local.upgrade.record import (
    Step,
    UpgradeRecord,
    UpgradeRecordFile,
    UpgradeVersions,
    is_unfinished,
)
from choir_local.upgrade.sequence import BACK, FORWARD, MAX_ATTEMPTS, UpgradeSequence


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Installation:
    """What an upgrade changes; `check` is what must hold at each moment."""

    code: str = "old"
    database: str = "old"
    copy: str | None = None
    runs: bool = True
    broken: Step | None = None
    """The step that fails each time."""
    kills: list[tuple[Step, str]] = field(default_factory=list)
    """Where the process is killed next, once each."""
    steps_done: list[Step] = field(default_factory=list)

    async def run(self, step: Step, record: UpgradeRecord) -> UpgradeRecord:
        self._maybe_kill(step, "before")
        if step == self.broken:
            raise StartupError(f"{step} is broken.")
        EFFECTS[step](self, record)
        self.steps_done.append(step)
        self._maybe_kill(step, "after")
        return record

    def _maybe_kill(self, step: Step, when: str) -> None:
        if self.kills and self.kills[0] == (step, when):
            self.kills.pop(0)
            raise Killed

    def begin(self) -> None:
        assert not self.runs or self.code == self.database, "a version ran on the other's database"
        self.runs = True

    def migrate(self) -> None:
        assert not self.runs and self.code == "new" and self.copy == "old"
        self.database = "new"

    def make_copy(self) -> None:
        assert not self.runs and self.database == "old", "the copy would not be the one from before"
        self.copy = self.database

    def put_copy_back(self, record: UpgradeRecord) -> None:
        assert not self.runs
        if record.last_forward not in ("stop", "snapshot") and self.copy is not None:
            self.database, self.copy = self.copy, None


EFFECTS: dict[Step, Callable[[Installation, UpgradeRecord], object]] = {
    "prepare": lambda it, _: None,
    "backup": lambda it, _: None,
    "stop": lambda it, _: setattr(it, "runs", False),
    "snapshot": lambda it, _: it.make_copy(),
    "switch": lambda it, _: setattr(it, "code", "new"),
    "migrate": lambda it, _: it.migrate(),
    "start": lambda it, _: it.begin(),
    "verify": lambda it, _: None,
    "finish": lambda it, _: setattr(it, "copy", None),
    "halt": lambda it, _: setattr(it, "runs", False),
    "switch_back": lambda it, _: setattr(it, "code", "old"),
    "restore": lambda it, record: it.put_copy_back(record),
    "start_again": lambda it, _: it.begin(),
}


def new_record() -> UpgradeRecord:
    code = UpgradeVersions(kind="installed")
    return UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=True)


async def upgrade(home: Path, installation: Installation) -> UpgradeRecord:
    """Upgrade, and continue after each kill as the next `choirctl upgrade` or `up` does."""
    home.mkdir(exist_ok=True)
    file = UpgradeRecordFile(Home(home))
    sequence = UpgradeSequence(file, installation, lambda _: None)
    try:
        return await sequence.run(new_record())
    except Killed:
        pass
    while True:
        record = UpgradeRecordFile(Home(home)).read()
        assert record is not None
        try:
            return await sequence.resume(record)
        except Killed:
            continue


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", FORWARD)
async def test_a_killed_upgrade_is_completed(tmp_path: Path, step: Step, when: str) -> None:
    installation = Installation(kills=[(step, when)])
    record = await upgrade(tmp_path, installation)
    assert (installation.code, installation.database) == (
        ("old", "old") if record.outcome == "abandoned" else ("new", "new")
    )
    assert record.outcome == ("abandoned" if step in ("prepare", "backup") else "done")
    assert installation.runs and installation.copy is None
    assert not is_unfinished(Home(tmp_path))


@pytest.mark.parametrize("broken", FORWARD)
async def test_a_failed_upgrade_is_undone_also_if_that_is_killed(
    tmp_path: Path, broken: Step
) -> None:
    outcome = {"prepare": "abandoned", "backup": "abandoned", "finish": "done"}
    version = "new" if broken == "finish" else "old"
    kills = [(step, when) for step in BACK for when in ("before", "after")]
    for number, kill in enumerate([None, *kills]):
        installation = Installation(broken=broken, kills=[kill] if kill else [])
        record = await upgrade(tmp_path / str(number), installation)
        assert record.outcome == outcome.get(broken, "rolled-back"), kill
        assert (installation.code, installation.database) == (version, version), kill
        assert installation.runs and f"{broken} is broken" in record.error, kill


async def test_an_upgrade_that_is_killed_each_time_is_undone(tmp_path: Path) -> None:
    installation = Installation(kills=[("start", "before")] * (MAX_ATTEMPTS + 2))
    record = await upgrade(tmp_path, installation)
    assert record.outcome == "rolled-back" and "killed repeatedly" in record.error
    assert (installation.code, installation.database, installation.runs) == ("old", "old", True)


async def test_what_cannot_be_undone_says_so_and_continues_later(tmp_path: Path) -> None:
    installation = Installation(broken="migrate", kills=[("restore", "before")])
    file = UpgradeRecordFile(Home(tmp_path))
    sequence = UpgradeSequence(file, installation, lambda _: None)
    with pytest.raises(Killed):
        await sequence.run(new_record())
    record = file.read()
    assert record is not None and record.step == "restore"
    installation.broken = "restore"
    with pytest.raises(StartupError, match="restore is broken"):
        await sequence.resume(record)
    installation.broken = None
    again = file.read()
    assert again is not None and (await sequence.resume(again)).outcome == "rolled-back"
    assert (installation.code, installation.database) == ("old", "old")


async def test_only_one_upgrade_works_at_a_time(tmp_path: Path) -> None:
    file = UpgradeRecordFile(Home(tmp_path))
    with file.lock():
        with pytest.raises(Exception, match="at work"):
            with UpgradeRecordFile(Home(tmp_path)).lock():
                pass
