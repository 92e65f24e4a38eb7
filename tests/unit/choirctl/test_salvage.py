"""A slip in secrets.json keeps nobody from a Choir that runs."""

from pathlib import Path

import pytest

from choir_common.secret_reader import salvage_secrets
from choir_common.target import Target


@pytest.mark.parametrize(
    "text",
    [
        '{"operator-token": "to\\"ken"',
        '{"broken: "x", "operator-token": "to\\"ken"}',
        '{"operator-token": "to\\"ken", "number": 7}',
        '{"operator-token" : "to\\"ken",\n "half": "val',
    ],
)
def test_the_token_is_found_beside_the_slip(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHOIR_TOKEN", raising=False)
    (tmp_path / "secrets.json").write_text(text)
    assert Target(tmp_path, "http://127.0.0.1:9400").token() == 'to"ken'


def test_what_cannot_be_read_holds_nothing(tmp_path: Path) -> None:
    assert salvage_secrets(tmp_path / "absent") == {}
    assert salvage_secrets(tmp_path) == {}
    (tmp_path / "bytes").write_bytes(b"\xff\x00\xfe" * 1000)
    assert salvage_secrets(tmp_path / "bytes") == {}
