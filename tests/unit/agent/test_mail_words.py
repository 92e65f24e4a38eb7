"""Whatever a stranger writes becomes plain, bounded, quoted text, and a harmless file name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_agent.tools.mail.outgoing_message import message_id_for
from choir_agent.tools.mail.received_message import MAX_NAME, safe_file_name
from choir_common.mail.text import clean_text, html_to_text, one_line, quote


@given(st.text())
def test_every_line_of_a_quote_is_marked_and_no_character_hides(text: str) -> None:
    lines = quote(clean_text(text)).split("\n")
    assert all(line.startswith("> ") for line in lines)
    assert not set("".join(lines)) & set("\x00\x08\x1b\x7f\r\u200b\u202e\u2066")


@given(st.text(), st.integers(1, 50))
def test_a_header_becomes_one_bounded_line(text: str, longest: int) -> None:
    line = one_line(text, longest)
    assert "\n" not in line and "\r" not in line and len(line) <= longest + 1


@given(st.text(max_size=300))
def test_a_file_name_is_one_component_that_hides_nothing(name: str) -> None:
    safe = safe_file_name(name)
    assert safe and len(safe) <= MAX_NAME and not safe.startswith(".")
    assert not set(safe) & set('/\\\x00\n\r:*?"<>|$`;&') and safe not in (".", "..")


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\a.txt", "a.txt"),
        (".bashrc", "bashrc"),
        ("..", "file"),
        ("", "file"),
        ("a b\tc.txt", "a b_c.txt"),
        ("Rechnung für Ann.pdf", "Rechnung für Ann.pdf"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
    ],
)
def test_file_names_are_kept_as_far_as_they_are_harmless(given_name: str, kept: str) -> None:
    assert safe_file_name(given_name) == kept


@given(st.text(alphabet="<>/a='\"&;! ptd-\n", max_size=200))
def test_html_of_any_kind_becomes_text(html: str) -> None:
    assert isinstance(html_to_text(html), str)


def test_html_keeps_words_and_links_and_drops_what_is_not_shown() -> None:
    html = (
        "<head><title>no</title></head><p>One<br>two</p><script>no()</script><style>no</style>"
        "<table><tr><td>a<td>b</table><a href='https://x.test/?q=1'>here</a>"
        "<a href='javascript:no()'>there</a>&lt;end&gt;"
    )
    text = html_to_text(html)
    assert "no" not in text.replace("nothing", "")
    assert "One\ntwo" in text and "a\tb" in text
    assert "here <https://x.test/?q=1>" in text and "there<end>" in text


@given(st.text(), st.text())
def test_message_ids_are_made_of_calls_alone(one: str, other: str) -> None:
    first, second = (message_id_for(call, "a@choir.test") for call in (one, other))
    assert (first == second) == (one == other)
    assert first.startswith("<") and first.endswith(".choir@choir.test>") and first.isascii()
