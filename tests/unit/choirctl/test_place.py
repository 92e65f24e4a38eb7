"""Which Choir a command means: its own options, then those before it, then the environment."""

from pathlib import Path

import pytest

from choir_common.target import Target, find_home


def test_a_home_is_the_option_then_the_variable_then_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("CHOIR_HOME", raising=False)
    assert find_home(None) == Path("/home/someone/.choir.d")
    monkeypatch.setenv("CHOIR_HOME", "/srv/choir")
    assert find_home(None) == Path("/srv/choir")
    assert find_home(Path("~/mine")) == Path("/home/someone/mine")


def test_a_socket_needs_no_token_and_http_takes_it_from_variable_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets.json").write_text('{"operator-token": "from the file"}')
    monkeypatch.delenv("CHOIR_TOKEN", raising=False)
    assert Target(tmp_path, None).token() is None
    assert Target(tmp_path, "http://127.0.0.1:9400").token() == "from the file"
    monkeypatch.setenv("CHOIR_TOKEN", "from the variable")
    assert Target(tmp_path, "http://127.0.0.1:9400").token() == "from the variable"
