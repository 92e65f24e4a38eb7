"""Row R12: what replaces something is killed at each of its lines, and leaves the old or the new, whole."""

import asyncio
import contextlib
import json
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

import choir_common.postgres.revisions  # noqa: F401 here, or every killed process would load Alembic again
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.secret_file import edit_secret_file, read_secret_file
from choir_common.wire.config import Config
from choir_common.wire.config_api import RepoChange
from choir_control.agents.rollout.config_staging import ConfigStaging
from choir_control.api.http_apps import AgentSockets
from choir_control.configuration.current import ConfigCandidate, ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.version_store import ConfigVersionStore
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.survey import RepositorySurvey, RepositorySurveyor
from choir_control.settings import ControlSettings
from tests.service.memory.servers import dsn, postgres
from tests.support.crash_injection import crash_at_each_line
from tests.support.nightly import nightly_from
from tests.support.postgres import PASSWORD
from tests.support.repositories import GitRepository

__all__ = ["dsn", "postgres"]

T = TypeVar("T")
VICTIM = "victim"
CONTROL = read_migrations("choir_control.migrations")
# all of them take minutes: `make nightly` does them, else each of so many
EVERY = os.environ.get("CHOIR_TEST_EVERY_CUT") == "1"
STAGES = ("/rollout/config_staging.py", "/configuration/current.py", "/configuration/parsing.py")
SURVEY = ("/repositories/survey.py",)
COMMIT = ("/configuration/version_store.py", "choir_control/api/http_apps.py")


class NoImages:
    """No agent has an image that could be outdated."""

    async def changes(self, config: Config, survey: RepositorySurvey) -> tuple[RepoChange, ...]:
        return ()


class NoConversations:
    """Binds no sessions: none runs."""

    async def apply(self) -> None:
        """Do nothing."""


class NoAgents:
    """No agent runs that a change would concern."""

    async def warn(self, after: Config) -> list[str]:
        return []

    async def announce(self, version: int) -> None:
        pass


def open_database(dsn: str) -> Database:
    return Database(dsn, PASSWORD, size=2, application=VICTIM)


class Witness:
    """Looks at the database from outside the processes that are killed."""

    def __init__(self, dsn: str) -> None:
        self._runner = asyncio.Runner()
        self._database = Database(dsn, PASSWORD, size=2, application="witness")
        self.do(lambda database: database.__aenter__())

    def do(self, work: Callable[[Database], Awaitable[T]]) -> T:
        """Run `work` on the database."""

        async def run() -> T:
            return await work(self._database)

        return self._runner.run(run())

    def settled(self) -> None:
        """Wait until the server has heard of every death: what it was told to commit may come later."""

        async def gone(database: Database) -> None:
            async with asyncio.timeout(90):
                while await database.fetchval(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", VICTIM
                ):
                    await asyncio.sleep(0.01)

        self.do(gone)

    def close(self) -> None:
        self.do(lambda database: database.__aexit__(None, None, None))
        self._runner.close()


@pytest.fixture
def witness(dsn: str) -> Iterator[Witness]:
    made = Witness(dsn)
    yield made
    made.close()


def test_a_secret_that_is_set_is_there_or_is_not(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    old, new = {"kept": "k", "key": "old"}, {"kept": "k", "key": "new"}

    def set_it(value: str) -> None:
        with edit_secret_file(path) as values:
            values["key"] = value

    with edit_secret_file(path) as values:
        values.update(old)
    seen = []
    for number in crash_at_each_line(
        lambda: set_it("new"), "choir_common/secret_file.py", every=1 if EVERY else 2
    ):
        found = read_secret_file(path)
        assert found in (old, new), number
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        seen.append(found == new)
        # the lock is free, and what a killed writer left is gone with the next change
        set_it("old")
        assert read_secret_file(path) == old
        assert {p.name for p in tmp_path.iterdir()} == {path.name, ".secrets.lock"}, number
    assert seen == sorted(seen) and seen[-1] and not seen[0] and len(seen) > 20
    print(f"secret set: {len(seen)} cuts")


class At:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class Home:
    """An installation with one repository, and the two phases over it."""

    def __init__(self, top: Path, dsn: str) -> None:
        self.top, self.dsn = top, dsn
        self.file = top / "config.json"
        self.repo = GitRepository(top / "own.git")
        self.repo.commit({"identity/SOUL.md": "soul"})

    def write(self, window: int, agents: Sequence[str]) -> None:
        """Let config.json say this."""
        defaults = {"workspace": "w", "llm": "m", "dm": "d"}
        repo = {"url": str(self.repo.path)}
        config = {
            "agents": {name: {"defaults": defaults, "repo": repo} for name in agents},
            "workspaces": {"w": {"path": "/w"}},
            "models": {"m": {"model": "m", "endpoint": "http://m/v1"}},
            "gateways": {"g": {"type": "console"}},
            "dms": {"d": {"gateway": "g", "user_id": "u"}},
            "event_window": window,
        }
        self.file.write_text(json.dumps(config))

    async def in_force(self, database: Database) -> tuple[ConfigService, ConfigCandidate]:
        """Return what a choird that starts with a broken file would have in force."""
        configuration = ConfigService(self.file, None, ConfigVersionStore(database))
        found = await configuration.load_last_valid("the file is broken")
        assert found is not None
        return configuration, found

    @contextlib.contextmanager
    def staging(self, configuration: ConfigService) -> Iterator[ConfigStaging]:
        """Lend the two phases, with real repositories and real sockets."""
        mirrors = Mirrors(self.top, {"PATH": "/usr/local/bin:/usr/bin:/bin"})
        surveyor = RepositorySurveyor(mirrors, self.top / "repos", compiles=False)
        sockets = AgentSockets(ControlSettings(home=self.top, postgres_dsn=self.dsn))

        try:
            yield ConfigStaging(
                configuration=configuration,
                clock=At(),
                secrets=SecretStore({}),
                surveyor=surveyor,
                outdated_images=NoImages(),  # type: ignore[arg-type]
                version_tracker=NoAgents(),  # type: ignore[arg-type]
                sockets=sockets,
                conversations=NoConversations(),  # type: ignore[arg-type]
            )
        finally:
            sockets.close()

    async def load_and_apply(self, apply: bool = True) -> None:
        """Do what `config load` and `config apply` do, beginning with what is in force."""
        async with open_database(self.dsn) as database:
            configuration, old = await self.in_force(database)
            await configuration.put_in_force(old)
            with self.staging(configuration) as staging:
                staged = await staging.load()
                assert staged.staged.repos.commits_by_owner
                if apply:
                    await staging.apply(staged.staged.digest)

    def says(self, witness: Witness) -> tuple[int, list[str]]:
        """Return what a restart would find: the window and the agents."""
        witness.settled()
        _, found = witness.do(self.in_force)
        return found.config.event_window, sorted(found.config.agents)


@pytest.fixture
def home(tmp_path: Path, dsn: str, witness: Witness) -> Home:
    """An installation whose first version is in force."""
    made = Home(tmp_path, dsn)
    made.write(50, ["main"])

    async def first(database: Database) -> None:
        await migrate(database, "choir_control", CONTROL)
        configuration = ConfigService(made.file, None, ConfigVersionStore(database))
        await configuration.put_in_force(configuration.read())

    witness.do(first)
    return made


def test_a_load_that_is_cut_leaves_what_was_in_force_and_mirrors_that_work(
    home: Home, witness: Witness
) -> None:
    before, number = home.says(witness), 0
    home.write(60, ["main"])
    for number in crash_at_each_line(
        lambda: asyncio.run(home.load_and_apply(apply=False)),
        *(*STAGES, *SURVEY),
        every=1 if EVERY else 24,
    ):
        assert home.says(witness) == before, number
    asyncio.run(home.load_and_apply(apply=False))
    assert [path.name for path in (home.top / "repos").glob(".scan-*")] == []
    assert number > 6
    print(f"load: {number} cuts")


def test_an_apply_that_is_cut_leaves_the_old_version_or_the_new_one(
    home: Home, witness: Witness
) -> None:
    """With the socket of a new agent, which goes and comes; the next apply works whatever was cut."""
    one, other = (50, ["main"]), (60, ["extra", "main"])
    now, went_through, number = one, [], 0
    for number in crash_at_each_line(
        lambda: asyncio.run(home.load_and_apply()),
        *(*STAGES, *COMMIT),
        every=1 if EVERY else 20,
    ):
        aim = other if now == one else one
        found = home.says(witness)
        assert found in (one, other), number
        went_through.append(found == aim)
        now = found
        home.write(*(other if now == one else one))
    assert went_through[-1] and not went_through[0] and number > 6
    print(f"apply: {number} cuts")


Shape = list[tuple[Any, ...]]


async def shape(database: Database) -> Shape:
    """Return every column of control's schema."""
    rows = await database.fetch(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'choir_control' ORDER BY 1, 2"
    )
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("have", nightly_from(1, [3, 0]))
def test_a_migration_that_is_cut_leaves_the_old_schema_or_the_new_one(
    dsn: str, witness: Witness, have: int
) -> None:
    """From nothing, which is made at once, and from an earlier release, which goes through Alembic."""

    async def begin(database: Database) -> Shape:
        await database.execute("DROP SCHEMA IF EXISTS choir_control CASCADE")
        if have:
            await migrate(database, "choir_control", CONTROL[:have])
        return await shape(database)

    async def migrate_all() -> None:
        async with open_database(dsn) as database:
            await migrate(database, "choir_control", CONTROL)

    witness.do(lambda database: migrate(database, "choir_control", CONTROL))
    newest = witness.do(shape)
    old, outcomes = witness.do(begin), []
    for number in crash_at_each_line(
        lambda: asyncio.run(migrate_all()),
        *("choir_common/postgres/migrate.py", "choir_common/postgres/revisions.py"),
        every=1 if EVERY else 7 if have == 0 else 75,
    ):
        witness.settled()
        found = witness.do(shape)
        assert found in (old, newest), number
        outcomes.append(found == newest)
        if found == newest:
            # whole, record and stamp included: there is nothing left to do
            assert witness.do(lambda base: migrate(base, "choir_control", CONTROL)) == []
            witness.do(begin)
    assert len(outcomes) > 6 and outcomes[-1] and not outcomes[0]
    print(f"migration from {have}: {len(outcomes)} cuts")
