"""The section `postgres` of config.json: the stack uses that server, and runs none of its own."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from choir_common.errors import NotFound, StartupError
from choir_common.postgres.configured import read_postgres_address
from choir_common.wire.config import PostgresConfig
from choir_control.settings import ControlSecrets, ControlSettings
from choir_local.database.connection import require_embedded_database
from choir_local.services import SERVICES
from choir_local.settings import LocalSettings
from choir_local.stack import running_stack
from choirctl.start.state_directory import create_state_directory
from tests.support.home import make_short_directory
from tests.support.postgres import PASSWORD, running_postgres

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


def settings_for(home: Path) -> LocalSettings:
    return LocalSettings(home=home, model_source="rehearsal", http_port=0)


async def test_the_stack_keeps_everything_in_the_server_that_config_json_names(home: Path) -> None:
    services = [one for one in SERVICES if one.name in ("memory", "control")]
    async with running_postgres() as server:
        sockets = server.dsn.partition("host=")[2]
        name_server(home, host=sockets)
        set_secret(home, PASSWORD)
        async with running_stack(settings_for(home), services=services) as stack:
            assert "postgres" not in stack.state.children
            assert sockets in stack.state.endpoints["postgres"].replace("%2F", "/")
        there = await asyncpg.connect(server.dsn, password=PASSWORD)
        try:
            for table in ("choir_control.sessions", "choir_memory.spaces"):
                assert await there.fetchval("SELECT to_regclass($1)", table) is not None
        finally:
            await there.close()
    assert not (home / "data/postgres").exists()
    with pytest.raises(NotFound, match="use its own pg_dump"):
        require_embedded_database(settings_for(home))


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
