"""Places in a JSON text, also in one that is none."""

import pytest

from choir_common.json_places import line_of, offset_of

TEXT = '{\n  "agents": {\n    "main": [1,\n      2]\n  }\n}\n'


@pytest.mark.parametrize(
    ("path", "line"),
    [((), 1), (("agents",), 2), (("agents", "main"), 3), (("agents", "main", 1), 4)],
)
def test_a_value_has_the_line_it_begins_in(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(TEXT, path) == line


def test_what_is_not_there_has_the_line_of_its_deepest_parent() -> None:
    assert line_of(TEXT, ("agents", "other", "model")) == 2
    assert offset_of(TEXT, ("agents", "main", 7)) == TEXT.index("[")


@pytest.mark.parametrize("text", ["", " \n", '{"a"', '{"a": ', "[" * 100_000, '{"a": ' * 100_000])
def test_a_text_that_is_not_json_has_no_place(text: str) -> None:
    assert offset_of(text, ("a", "b")) is None
