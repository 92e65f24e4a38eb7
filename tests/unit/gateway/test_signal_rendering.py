"""Signal's styles from marked text: marks, literal symbols, and the splitting of long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import TextMark, TextRun, make_own, make_plain
from choir_gateway.channels.signal.parts import label_repeated, split_note
from choir_gateway.channels.signal.rendering import LIMIT, OWN_BAR, render, split_styled
from choir_testing.signal.text_styles import parse_styled

RUNS = st.lists(
    st.builds(
        lambda text, tags: TextRun(text, tuple(TextMark(tag, 1) for tag in sorted(tags))),
        st.text(alphabet="ab *~`|\\\n", max_size=6),
        st.frozensets(st.sampled_from(["b", "i", "s", "code"]), max_size=2),
    ),
    max_size=6,
)


def shown(markdown: str) -> tuple[str, tuple[str, ...]]:
    (part,) = split_styled(parse_markdown(markdown))
    rendered = render(part)
    return parse_styled(rendered.text) if rendered.is_styled else (rendered.text, ())


@pytest.mark.parametrize(
    ("markdown", "text", "styles"),
    [
        ("a **b** c", "a b c", ("2:1:BOLD",)),
        ("*i* ~~s~~", "i s", ("0:1:ITALIC", "2:1:STRIKETHROUGH")),
        ("***both***", "both", ("0:4:BOLD", "0:4:ITALIC")),
        ("👋 `x * y`", "👋 x * y", ("3:5:MONOSPACE",)),
        ("[name](https://a.b/_c_)", "name (https://a.b/_c_)", ()),
        ("2 * 3 || 4 ~ 5 **b**", "2 * 3 || 4 ~ 5 b", ("15:1:BOLD",)),
        ("**a***b*", "ab", ("0:1:BOLD",)),
        ("`C:\\` is **it**", "C:\\ is it", ("7:2:BOLD",)),
    ],
)
def test_markdown_becomes_signals(markdown: str, text: str, styles: tuple[str, ...]) -> None:
    assert shown(markdown) == (text, styles)


@given(RUNS)
def test_no_character_is_lost_or_becomes_a_style_by_itself(runs: list[TextRun]) -> None:
    rendered = render(runs)
    text, styles = parse_styled(rendered.text) if rendered.is_styled else (rendered.text, ())
    assert text == "".join(run.text for run in runs)
    if not any(run.marks for run in runs):
        assert styles == ()


def test_only_choirs_own_texts_have_bars() -> None:
    (own,) = split_note("one\ntwo")
    assert render(own.styled).text == f"{OWN_BAR} one\n{OWN_BAR} two"
    assert render(label_repeated(own, "en").styled).text.endswith(f"\n{OWN_BAR} one\n{OWN_BAR} two")
    assert OWN_BAR not in render(make_plain(f"{OWN_BAR} Approved.")).text


@pytest.mark.parametrize("text", ["ж" * 3_000, "👋" * 1_500, "word " * 900])
def test_a_message_has_at_most_two_thousand_bytes(text: str) -> None:
    for runs in (make_plain(text), make_own(text)):
        parts = [render(part).text for part in split_styled(runs)]
        assert max(len(part.encode()) for part in parts) <= LIMIT
        letters = "".join(parts).replace(f"{OWN_BAR} ", "").replace(" ", "").replace("\n", "")
        assert letters == text.replace(" ", "")
