"""Templates of triggers: values from outside become marked, bounded text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_control.conversations.triggers.template import (
    MAX_TEXT,
    MAX_VALUE,
    find_value,
    render_text,
)

CONTENT = {"a": {"b": [{"c": "x"}, 2]}, "n": None, "t": True, "": "empty"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".", CONTENT),
        ("a.b.0.c", "x"),
        ("a.b.1", 2),
        ("t", True),
        ("n", None),
        ("a.b.2", None),
        ("a.b.-1", None),
        ("a.b.c", None),
        ("a.b.0.c.d", None),
        ("a.b.99999999999999999999", None),
        ("a.b.²", None),
        ("__class__", None),
        ("a..b", None),
    ],
)
def test_a_path_finds_a_value_of_the_content_and_nothing_else(path: str, value: object) -> None:
    assert find_value(CONTENT, path) == value


def test_places_without_a_value_stay_empty_and_are_named_once() -> None:
    rendered = render_text("{{ x }}-{{a.b.1}}-{{ n }}-{{ x }}", CONTENT)
    assert rendered.missing == ("x", "n")
    assert rendered.text.startswith(
        "-⟦2⟧--\n\n[Choir] Places of the template without a value: x, n."
    )


def test_what_is_no_place_stays_as_it_is() -> None:
    text = "{{ }} {{ a b }} {{{{ t }} { t } {{ 7*7 | safe }}"
    assert render_text(text, CONTENT).text == "{{ }} {{ a b }} {{⟦true⟧ { t } {{ 7*7 | safe }}"


def test_values_are_cut_and_the_whole_text_is_bounded() -> None:
    assert len(render_text("{{ v }}", {"v": "x" * 100_000}).text) < MAX_VALUE + 20
    many = render_text("{{ v }}" * 500, {"v": "x" * 100_000})
    assert len(many.text) < MAX_TEXT + MAX_VALUE + 500 * 12


@given(JSON)
def test_no_value_begins_a_line_or_leaves_its_marks(value: object) -> None:
    text = render_text("start {{ v }} end", {"v": value}).text.partition("\n\n[Choir]")[0]
    first, *further = text.splitlines()
    assert first.startswith("start ") and text.endswith(" end")
    assert all(line.startswith("    ") for line in further)
    assert text.count("⟦") == text.count("⟧") == (0 if value is None else 1)
