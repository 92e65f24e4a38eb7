"""secrets.json of a local installation."""

import json
from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_common.ids import SERVICE_NAMES
from choir_common.stack_secrets import STACK_SECRETS, bus_key
from choir_local.bus_users import public_key, service_users
from choir_local.stack_secrets import load_or_create_secrets


def test_the_first_start_makes_them_for_the_owner_only(tmp_path: Path) -> None:
    made = load_or_create_secrets(tmp_path / "secrets.json")
    assert made.created == set(STACK_SECRETS)
    assert len(set(made.values.values())) == len(STACK_SECRETS)
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_the_second_start_finds_the_same(tmp_path: Path) -> None:
    first = load_or_create_secrets(tmp_path / "secrets.json")
    second = load_or_create_secrets(tmp_path / "secrets.json")
    assert second.values == first.values
    assert second.created == frozenset()


def test_what_others_wrote_stays(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"telegram-bot": "123:abc", "operator-token": "mine"}))
    path.chmod(0o644)
    values = load_or_create_secrets(path).values
    assert (values["telegram-bot"], values["operator-token"]) == ("123:abc", "mine")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ['{"bot": "s3cret",', '{"bot": ["s3cret"]}', '["s3cret"]'])
def test_a_broken_file_is_refused_without_quoting_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(text)
    with pytest.raises(StartupError) as caught:
        load_or_create_secrets(path)
    assert str(path) in caught.value.message
    assert "s3cret" not in str(caught.value)
    assert path.read_text() == text


def test_no_value_shows_in_a_traceback(tmp_path: Path) -> None:
    made = load_or_create_secrets(tmp_path / "secrets.json")
    assert not any(value in repr(made) for value in made.values.values())


def test_the_shared_token_of_old_versions_is_replaced_by_a_key_of_each_service(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"nats-token": "shared", "operator-token": "mine"}))
    values = load_or_create_secrets(path).values
    assert "nats-token" not in json.loads(path.read_text())
    assert values["operator-token"] == "mine"
    assert len({public_key(values[bus_key(service)]) for service in SERVICE_NAMES}) == 4


def test_a_damaged_key_is_named_with_what_to_do(tmp_path: Path) -> None:
    values = {**load_or_create_secrets(tmp_path / "secrets.json").values, "nats-key-memory": "SUx"}
    with pytest.raises(StartupError, match=r"nats-key-memory.*secrets\.json"):
        service_users(values)
