"""What `setup` gives the containers: the model, the database that config.json names, and what it refuses."""

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from choir_common.errors import StartupError
from choir_local.bus_users import public_key
from choirctl.start.state_directory import create_state_directory
from tests.support.home import make_short_directory

SCRIPT = Path(__file__).parents[3] / "deploy" / "docker" / "prepare.py"
SERVICES = ("setup", "control", "memory", "gateway", "browser", "postgres", "nats", "rehearsal")
NOBODY = "http://127.0.0.2:1"
"""An address at which nothing answers, and which is not refused for being the container's own."""


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script, with volumes in a directory of the test, all of them its user's."""
    spec = importlib.util.spec_from_file_location("prepare", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # a dataclass looks its module up
    monkeypatch.setitem(sys.modules, "prepare", module)
    spec.loader.exec_module(module)
    for service in SERVICES:
        (tmp_path / "volumes" / service).mkdir(parents=True)
    monkeypatch.setattr(module, "VOLUMES", tmp_path / "volumes")
    monkeypatch.setattr(module, "SERVICE_UID", os.geteuid())
    monkeypatch.setattr(module, "ROOT_UID", os.geteuid())
    for name in (
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "CHOIR_MODEL_SOURCE",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("OLLAMA_HOST", "CHOIR_LMSTUDIO_URL", "CHOIR_LLAMACPP_URL", "CHOIR_VLLM_URL"):
        monkeypatch.setenv(name, NOBODY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{NOBODY}/v1")
    return module


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a state directory whose path is short enough for sockets."""
    path = make_short_directory("choir-")
    create_state_directory(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def write_service_secrets(setup: ModuleType, home: Path) -> None:
    setup.write_service_secrets(home, setup.FileOwner(os.geteuid(), os.getegid()))


def read_volume(setup: ModuleType, service: str, name: str = "secrets.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((setup.VOLUMES / service / name).read_text())
    return content


def change(path: Path, **more: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def test_a_key_of_the_environment_is_missed_at_the_next_start(
    setup: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-once")
    write_service_secrets(setup, home)
    settings = read_volume(setup, "control", "settings.json")
    assert json.loads(settings["CHOIR_DEFAULT_MODEL"])["provider"] == "openai"
    assert read_volume(setup, "control")["supplied"] == {"openai-key": "sk-once"}

    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(StartupError, match="choirctl secret set openai-key"):
        write_service_secrets(setup, home)
    monkeypatch.setenv("CHOIR_MODEL_SOURCE", "rehearsal")
    write_service_secrets(setup, home)
    monkeypatch.delenv("CHOIR_MODEL_SOURCE")
    change(home / "secrets.json", **{"openai-key": "sk-kept"})
    write_service_secrets(setup, home)
    settings = read_volume(setup, "control", "settings.json")
    assert json.loads(settings["CHOIR_DEFAULT_MODEL"])["provider"] == "openai"


def test_a_home_that_only_rehearsed_goes_on_rehearsing(setup: ModuleType, home: Path) -> None:
    for _ in range(2):
        write_service_secrets(setup, home)
        settings = read_volume(setup, "control", "settings.json")
        assert json.loads(settings["CHOIR_DEFAULT_MODEL"])["provider"] == "rehearsal"


def test_the_rehearsal_model_serves_only_where_it_is_the_model(
    setup: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = setup.VOLUMES / "rehearsal" / "needed"
    write_service_secrets(setup, home)
    assert needed.exists()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    write_service_secrets(setup, home)
    assert not needed.exists()
    # an agent's model in config.json may have its address, too
    change(home / "config.json", models={"script": {"model": "m", "endpoint": setup.REHEARSAL_URL}})
    write_service_secrets(setup, home)
    assert needed.exists()
    change(home / "config.json", models={"default": {"model": "m", "endpoint": f"{NOBODY}/v1"}})
    monkeypatch.delenv("OPENAI_API_KEY")
    write_service_secrets(setup, home)
    assert not needed.exists()


def test_memory_is_told_the_database_that_config_json_names(setup: ModuleType, home: Path) -> None:
    write_service_secrets(setup, home)
    assert "postgres_dsn" not in read_volume(setup, "memory")
    change(home / "config.json", postgres={"host": "db.example", "secret": "our-postgres"})
    change(home / "secrets.json", **{"our-postgres": "the password"})
    write_service_secrets(setup, home)
    secrets = read_volume(setup, "memory")
    assert secrets["postgres_dsn"] == "postgresql://choir@db.example:5432/choir"
    assert secrets["postgres_password"] == "the password"


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OLLAMA_HOST", "CHOIR_VLLM_URL"])
def test_an_address_that_is_the_containers_own_is_refused(
    setup: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://localhost:8080/v1")
    with pytest.raises(StartupError, match=r"host\.docker\.internal"):
        write_service_secrets(setup, home)


def test_each_service_gets_its_own_key_and_the_gateway_no_operator_token(
    setup: ModuleType, home: Path
) -> None:
    write_service_secrets(setup, home)
    given = {name: read_volume(setup, name) for name in ("control", "memory", "gateway", "browser")}
    conf = (setup.VOLUMES / "nats" / "nats.conf").read_text()
    keys = [secrets["nats_key"] for secrets in given.values()]
    assert len(set(keys)) == len(keys)
    assert all(public_key(key) in conf and key not in conf for key in keys)
    assert set(given["browser"]) == {"nats_key"}
    assert set(given["gateway"]) == {"nats_key", "gateway_token", "secrets"}
    operator = json.loads((home / "secrets.json").read_text())["operator-token"]
    assert given["control"]["operator_token"] == operator != given["gateway"]["gateway_token"]
    assert operator not in (setup.VOLUMES / "gateway" / "secrets.json").read_text()
    assert (setup.VOLUMES / "browser" / "secrets.json").stat().st_mode & 0o777 == 0o400


def test_an_upgrade_keeps_the_databases_password_and_drops_the_shared_token(
    setup: ModuleType, home: Path
) -> None:
    old = {"postgres-admin": "the password", "nats-token": "the shared token"}
    (setup.VOLUMES / "setup" / "secrets.json").write_text(json.dumps(old))
    for _ in range(2):
        write_service_secrets(setup, home)
        own = read_volume(setup, "setup")
        assert own["postgres-admin"] == "the password" and "nats-token" not in own
        assert read_volume(setup, "browser")["nats_key"] == own["nats-key-browser"]
