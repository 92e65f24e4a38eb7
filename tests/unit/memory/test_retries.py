"""Requests are retried while the database is unavailable, and cost nothing extra while it is there."""

import pytest

from choir_common.errors import Conflict, Unavailable
from choir_memory import endpoints
from choir_memory.endpoints import with_retry


class FakeHandler:
    """A handler that fails with these errors before it answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def handle(self, request: str) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return f"{request}!"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "FIRST_RETRY_S", 0.001)


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_a_request_is_retried_until_the_database_is_there(failures: int) -> None:
    handler = FakeHandler(*[Unavailable("away")] * failures)
    assert await with_retry(handler.handle)("hello") == "hello!"
    assert handler.calls == failures + 1


async def test_other_errors_are_not_retried() -> None:
    for errors in ([Conflict("taken")], [Unavailable("away"), Conflict("taken")]):
        handler = FakeHandler(*errors)
        with pytest.raises(Conflict):
            await with_retry(handler.handle)("hello")
        assert handler.calls == len(errors)


@pytest.mark.parametrize("timeout_s", [0.0, 0.05])
async def test_a_database_that_stays_away_is_reported(
    timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "RETRY_TIMEOUT_S", timeout_s)
    handler = FakeHandler(*[Unavailable("away")] * 100)
    with pytest.raises(Unavailable):
        await with_retry(handler.handle)("hello")
    assert (handler.calls == 1) == (timeout_s == 0)
