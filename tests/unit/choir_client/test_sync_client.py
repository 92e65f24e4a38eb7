"""The sync client is what the script makes of the async one; errors keep what they say."""

from pathlib import Path

import httpx2
import pytest

from choir_client import OutcomeUnknown, RateLimited, Unavailable
from choir_client.failures import convert_transport_errors, raise_for_status
from choir_common.target import Target
from scripts.sync_client import PACKAGE, sync_modules


def test_the_sync_client_is_up_to_date() -> None:
    made = sync_modules()
    files = {path.name for path in (PACKAGE / "_sync").glob("*.py")}
    assert files == {*made, "connection.py"}
    stale = [name for name, text in made.items() if (PACKAGE / "_sync" / name).read_text() != text]
    assert stale == [], "run `python -m scripts.sync_client`"


def test_an_error_says_when_to_try_again() -> None:
    place = Target(Path("/nowhere"), None)
    problem = {
        "type": "",
        "title": "",
        "status": 429,
        "detail": "slow down",
        "code": "rate_limited",
    }
    with pytest.raises(RateLimited, match="slow down") as raised:
        raise_for_status(place, httpx2.Response(429, json=problem, headers={"Retry-After": "7"}))
    assert raised.value.retry_after_s == 7
    # a reverse proxy's own page
    with pytest.raises(Unavailable, match="HTTP 502"):
        raise_for_status(place, httpx2.Response(502, text="<html>"))
    with pytest.raises(OutcomeUnknown), convert_transport_errors(place):
        raise httpx2.ReadError("reset")


def test_a_token_is_in_no_repr() -> None:
    place = Target(Path("/nowhere"), "http://127.0.0.1:1", "secret-of-the-test")
    assert place.token() == "secret-of-the-test"
    assert "secret-of-the-test" not in repr(place)
