"""Settings: bad ones stop a service with one clear paragraph that shows no secret."""

from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from choir_common.addresses import HOST_AND_PORT_PATTERN
from choir_common.errors import StartupError
from choir_common.settings import ServiceSettings


class Needs(BaseModel):
    password: str
    port: int = 1


class Ported(ServiceSettings):
    http_port: int = 9400
    other_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)


def test_a_value_of_the_wrong_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOIR_HTTP_PORT", "many")
    with pytest.raises(StartupError, match="http_port"):
        Ported.load()


def test_a_value_of_a_wrong_form_is_told_in_words_and_never_as_a_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHOIR_OTHER_HTTP", "everywhere")
    with pytest.raises(StartupError, match="other_http: must be host and port") as caught:
        Ported.load()
    assert "^" not in str(caught.value)


def test_a_missing_secrets_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOIR_SECRETS_FILE", str(tmp_path / "none.json"))
    with pytest.raises(StartupError, match=r"none\.json.*No such file"):
        Ported.load().read_secrets(Needs)


def test_a_secret_of_the_wrong_kind_is_named_but_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.json").write_text('{"password": "pw-canary", "port": "canary-port"}')
    monkeypatch.setenv("CHOIR_SECRETS_FILE", str(tmp_path / "s.json"))
    with pytest.raises(StartupError) as caught:
        Ported.load().read_secrets(Needs)
    assert "port" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
