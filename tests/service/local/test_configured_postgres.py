"""The section `postgres` of config.json: the stack uses that server, and runs none of its own."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from choir_common.errors import Conflict, NotFound, StartupError
from choir_common.postgres.configured import read_postgres_address
from choir_common.postgres.pool import Database
from choir_common.wire.config import PostgresConfig
from choir_control.settings import ControlSecrets, ControlSettings
from choir_local.backup.create import require_own_home
from choir_local.backup.restore import restore_home
from choir_local.database.connection import APPLICATION, require_embedded_database
from choir_local.database.schemas import migrate_all
from choir_local.home import Home
from choir_local.services import SERVICES
from choir_local.settings import LocalSettings
from choir_local.stack import running_stack
from choir_local.upgrade.compose_steps import ComposeSteps
from choir_local.upgrade.record import UpgradeRecord, UpgradeVersions
from choir_local.upgrade.server_snapshot import ExternalSnapshot
from choir_local.upgrade.steps import EmbeddedSteps
from choir_memory.schema.store import SpaceStore, agent_transaction
from choirctl.start.state_directory import create_state_directory
from tests.service.local.test_database import write_log
from tests.support.home import make_short_directory
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.shell import ChoirctlRunner

SECRET = "our-postgres"


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a state directory whose path is short enough for sockets."""
    path = make_short_directory("choir-")
    create_state_directory(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def name_server(home: Path, **section: object) -> None:
    """Write the section into config.json."""
    config = json.loads((home / "config.json").read_text())
    section = {"host": "db.example", "secret": SECRET, **section}
    (home / "config.json").write_text(json.dumps({**config, "postgres": section}))


def set_secret(home: Path, value: str) -> None:
    path = home / "secrets.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), SECRET: value}))
    path.chmod(0o600)


@contextlib.asynccontextmanager
async def connection(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    there = await asyncpg.connect(dsn, password=PASSWORD)
    try:
        yield there
    finally:
        await there.close()


async def make_alice(admin: asyncpg.Connection) -> None:
    """Create a user with the rights that docs/config.md asks for, and the extension, as an admin does."""
    await admin.execute(
        f"CREATE ROLE alice LOGIN CREATEROLE PASSWORD '{PASSWORD}';"
        "GRANT CREATE ON DATABASE choir TO alice; CREATE EXTENSION IF NOT EXISTS vector"
    )


def settings_for(home: Path) -> LocalSettings:
    return LocalSettings(home=home, model_source="rehearsal", http_port=0)


@pytest.mark.nightly  # the tests below: each service takes the server that config.json names
async def test_the_stack_keeps_everything_in_the_server_that_config_json_names(home: Path) -> None:
    services = [one for one in SERVICES if one.name in ("memory", "control")]
    async with running_postgres() as server:
        sockets = server.dsn.partition("host=")[2]
        name_server(home, host=sockets)
        set_secret(home, PASSWORD)
        async with running_stack(settings_for(home), services=services) as stack:
            assert "postgres" not in stack.state.children
            assert sockets in stack.state.endpoints["postgres"].replace("%2F", "/")
        async with connection(server.dsn) as there:
            for table in ("choir_control.sessions", "choir_memory.spaces"):
                assert await there.fetchval("SELECT to_regclass($1)", table) is not None
    assert not (home / "data/postgres").exists()
    with pytest.raises(NotFound, match="backup create"):
        require_embedded_database(settings_for(home))
    require_own_home(settings_for(home))


@pytest.mark.nightly  # test_database.py restores, and the test below puts back schemas
async def test_a_server_elsewhere_is_backed_up_and_restored_into_choirs_own(home: Path) -> None:
    """Its user is no superuser, as on a managed server, and has another name than Choir's own."""
    shell = ChoirctlRunner(home)
    async with running_postgres() as server, connection(server.dsn) as admin:
        await admin.execute(
            f"CREATE ROLE alice LOGIN CREATEROLE PASSWORD '{PASSWORD}'; GRANT ALL ON DATABASE choir TO alice"
        )
        await admin.execute("GRANT CREATE ON SCHEMA public TO alice")
        sockets = server.dsn.partition("host=")[2]
        name_server(home, host=sockets, user="alice")
        set_secret(home, PASSWORD)
        dsn = server.dsn.replace("choir@", "alice@", 1)
        async with Database(dsn, PASSWORD, size=2, application="test") as database:
            await write_log(database, events=30)
        report = await asyncio.to_thread(shell.data, "backup", "create", "--without-secrets")
    assert not (home / "data/postgres").exists()
    there = ChoirctlRunner(home.with_name(f"{home.name}-b"))
    try:
        restored = there.data("backup", "restore", report["file"])
        assert restored["events"] == 30 and restored["server"] == sockets
        assert "postgres" not in json.loads((there.home / "config.json").read_text())
        assert all(each["missing"] == [] for each in there.data("db", "status")["schemas"])
    finally:
        shutil.rmtree(there.home, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class ExternalServer:
    """A server whose user `alice` may create roles, and its schemas of Choir with an agent and a log."""

    admin: asyncpg.Connection
    dsn: str
    alice: Database
    snapshot: ExternalSnapshot

    async def tables(self) -> dict[str, list[str]]:
        """Return the content of every table of Choir, and who owns it."""
        sql = r"""SELECT format('%I.%I', schemaname, tablename) AS name, tableowner FROM pg_tables
                  WHERE schemaname LIKE 'choir\_%' ORDER BY 1"""
        rows = await self.admin.fetch(sql)
        return {
            f"{row['name']} of {row['tableowner']}": sorted(
                str(it["t"])
                for it in await self.admin.fetch(f"SELECT t::text FROM {row['name']} t")
            )
            for row in rows
        }


@pytest.fixture
async def external(home: Path) -> AsyncIterator[ExternalServer]:
    async with running_postgres() as server, connection(server.dsn) as admin:
        await make_alice(admin)
        name_server(home, host=server.dsn.partition("host=")[2], user="alice")
        set_secret(home, PASSWORD)
        (home / "upgrade").mkdir(mode=0o700)
        dsn = server.dsn.replace("choir@", "alice@", 1)
        # the application of choirctl's own connections, which do not count as those of others
        async with Database(dsn, PASSWORD, size=2, application=APPLICATION) as alice:
            await write_log(alice, events=30)
            await migrate_all(alice)
            await SpaceStore(alice).create("helper")
            yield ExternalServer(
                admin, dsn, alice, ExternalSnapshot(settings_for(home), Home(home))
            )


async def change_everything(external: ExternalServer) -> None:
    """Do what a newer version may have done."""
    await external.alice.execute("CREATE TABLE choir_control.next (x int)")
    await external.alice.execute("DELETE FROM choir_control.session_events WHERE rev > 10")
    await external.alice.execute("DROP TABLE choir_helper.operations CASCADE")
    await SpaceStore(external.alice).create("later")


def upgrade_record() -> UpgradeRecord:
    code = UpgradeVersions(kind="installed")
    return UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=False)


async def test_schemas_on_a_server_elsewhere_are_put_back_exactly(
    external: ExternalServer, home: Path
) -> None:
    async with agent_transaction(external.alice, "helper") as transaction:
        assert await transaction.fetchval("SELECT count(*) FROM operations") == 0
    before = await external.tables()
    assert len(before["choir_control.session_events of alice"]) == 30
    await external.admin.execute(
        "CREATE TABLE public.others (x int); INSERT INTO public.others VALUES (1)"
    )
    await external.snapshot.make()
    assert await external.tables() == before, "the trial changes nothing"
    await external.snapshot.check_heads()
    settings, config = settings_for(home), (home / "config.json").read_bytes()
    assert EmbeddedSteps(settings, upgrade_record()).uses_external_server
    (home / "config.json").write_text("{")
    assert EmbeddedSteps(settings, upgrade_record()).uses_external_server, "not another database"
    (home / "config.json").write_bytes(config)
    await change_everything(external)
    with pytest.raises(StartupError, match="changed the log of session"):
        await external.snapshot.check_heads()
    await external.snapshot.restore()
    assert await external.tables() == before
    assert await external.admin.fetchval("SELECT count(*) FROM public.others") == 1
    # the agent's role reaches its schema, and no other
    async with agent_transaction(external.alice, "helper") as transaction:
        assert await transaction.fetchval("SELECT count(*) FROM operations") == 0
    assert {it.name for it in (home / "upgrade").iterdir()} == {"heads.json", "failed.dump"}
    await external.snapshot.restore()
    await external.snapshot.remove()
    assert await external.tables() == before and not list((home / "upgrade").iterdir())


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        (
            "ALTER SCHEMA choir_helper OWNER TO choir; GRANT ALL ON SCHEMA choir_helper TO alice",
            "must be owner of schema choir_helper",
        ),
        (
            "CREATE VIEW public.ours AS SELECT session_id FROM choir_control.sessions",
            "objects in other schemas",
        ),
    ],
)
async def test_an_upgrade_ends_before_the_migration_if_schemas_could_not_be_put_back(
    external: ExternalServer, obstacle: str, reason: str
) -> None:
    await external.admin.execute(obstacle)
    before = await external.tables()
    with pytest.raises(Conflict, match=reason):
        await external.snapshot.make()
    assert await external.tables() == before


async def test_a_connection_of_choir_elsewhere_ends_the_upgrade(external: ExternalServer) -> None:
    async with Database(external.dsn, PASSWORD, size=1, application="choird") as other:
        await other.execute("SELECT 1")
        with pytest.raises(Conflict, match="other connections"):
            await external.snapshot.make()


async def test_what_would_meet_a_server_elsewhere_says_what_to_do_instead(home: Path) -> None:
    name_server(home)
    local = settings_for(home)
    in_container = local.model_copy(update={"postgres_dsn": "postgresql://choir@postgres/choir"})
    with pytest.raises(Conflict, match="remove the section `postgres`"):
        await restore_home(
            in_container, home / "x", None, replace=True, show_progress=lambda _: None
        )
    code = UpgradeVersions(kind="compose", source="x", directory=str(home))
    record = UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=code, was_running=True)
    with pytest.raises(Conflict, match="Upgrade by hand"):
        await ComposeSteps(Home(home), record).run("prepare", record)


async def test_a_server_whose_secret_is_not_set_stops_the_start_in_a_sentence(home: Path) -> None:
    name_server(home)
    with pytest.raises(StartupError, match=f"choirctl secret set {SECRET}"):
        async with running_stack(settings_for(home), services=()):
            pass


def test_choird_takes_the_named_server_before_its_environment(home: Path) -> None:
    settings = ControlSettings(home=home, postgres_dsn="postgresql://choir@elsewhere/choir")
    secrets = ControlSecrets(postgres_password="env", secrets={SECRET: "named"})
    assert settings.database_address(secrets) == ("postgresql://choir@elsewhere/choir", "env")
    name_server(home, port=6000, database="our choir")
    assert settings.database_address(secrets) == (
        "postgresql://choir@db.example:6000/our%20choir",
        "named",
    )


def test_an_address_is_written_so_that_it_can_be_read_again() -> None:
    for host, expected in (
        ("::1", "postgresql://choir@[::1]:5432/choir"),
        ("/run/pg", "postgresql://choir@/choir?host=/run/pg&port=5432"),
    ):
        assert PostgresConfig(host=host, secret=SECRET).dsn == expected


def test_a_section_that_does_not_fit_is_said_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"postgres": {"host": "x"}}))
    with pytest.raises(StartupError, match="section postgres: secret: "):
        read_postgres_address(path, {})
    path.write_text("{}")
    assert read_postgres_address(path, {}) is None
