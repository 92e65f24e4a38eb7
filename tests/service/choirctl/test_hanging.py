"""choirctl at a choird that accepts connections and answers none: it says so, and does not wait on."""

import socket
from collections.abc import Iterator

import pytest

from tests.support.home import short_home
from tests.support.shell import ChoirctlRunner


@pytest.fixture
def shell() -> Iterator[ChoirctlRunner]:
    """Give a shell whose choird is a socket that nobody serves."""
    with short_home() as home:
        path = home / "socks" / "choird.sock"
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen(100)
            yield ChoirctlRunner(home)


@pytest.mark.parametrize(
    "words",
    [
        # each has minutes for an answer of a choird that works
        ("session", "verify", "ses_1"),
        ("chat", "-m", "hello"),
    ],
)
def test_a_choird_that_hangs_is_named_long_before_the_deadline_of_the_command(
    shell: ChoirctlRunner, words: tuple[str, ...]
) -> None:
    said = shell.fails(6, *words)
    assert "stuck or very busy" in said
