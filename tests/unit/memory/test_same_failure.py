"""Two messages are of the same failure if they share their template and what they name."""

import pytest

from choir_memory.tool_errors.similarity import parse_failure, similarity

LINE = 'exit code 1: Traceback (most recent call last): File "/work/main.py", line {}: {}'


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "not_found 'a.txt' does not exist in the workspace.",
            "not_found './a.txt' does not exist in the workspace.",
        ),
        ("exit code 2: timeout after 31 s", "exit code 2: timeout after 7 s"),
        (
            "fatal: could not read Username for 'https://example.org/a': prompts disabled",
            "fatal: could not read Username for 'https://example.org/b': prompts disabled",
        ),
        (
            LINE.format(3, "ModuleNotFoundError: No module named 'requests'"),
            LINE.format(9, "ModuleNotFoundError: No module named 'requests'"),
        ),
        ("permission denied", "permission denied: 'a.txt'"),
    ],
)
def test_the_same_failure_is_known_again(first: str, second: str) -> None:
    assert similarity(parse_failure(first), parse_failure(second)) > 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "not_found 'gone.txt' does not exist in the workspace.",
            "not_found 'README.md' does not exist in the workspace.",
        ),
        (
            "exit code 1: cat: src/a.py: No such file or directory",
            "exit code 1: cat: src/b.py: No such file or directory",
        ),
        (
            LINE.format(3, "ModuleNotFoundError: No module named 'requests'"),
            LINE.format(3, "ModuleNotFoundError: No module named 'numpy'"),
        ),
        ("could not resolve host db1.example.org", "could not resolve host mail.example.com"),
        ("exit code 128: prompts disabled", "exit code 2: No rule to make target"),
    ],
)
def test_another_failure_of_the_same_template_is_another(first: str, second: str) -> None:
    assert similarity(parse_failure(first), parse_failure(second)) == 0
