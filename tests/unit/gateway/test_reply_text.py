"""What a user wrote: without history and signature; above, below and between quotations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.mail.text import html_to_text
from choir_gateway.channels.email.reply_text import cut_signature, extract_reply


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes.", "Yes."),
        ("Yes.\n\nOn Tue, 24 Nov 2026 at 10:00, main <a@b.c> wrote:\n\n> May I?\n> Soon?", "Yes."),
        ("Yes.\n\nOn Tue, 24 Nov 2026 at 10:00, main\n<a@b.c> wrote:\n> May I?", "Yes."),
        ("Ja.\n\nAm 24.11.2026 um 10:00 schrieb main:\n> Darf ich?", "Ja."),
        ("Oui.\n\nLe mar. 24 nov. 2026 à 10:00, main <a@b.c> a écrit :\n> Puis-je ?", "Oui."),
        ("好\n\n2026年11月24日 main <a@b.c> 写道：\n> 可以吗", "好"),
        ("Yes.\n-- \nAnn\nExample Ltd.", "Yes."),
        ("Yes.\n--\nAnn", "Yes."),
        ("Yes.\n\nSent from my iPhone\n\nOn 24 Nov, main <a@b.c> wrote:\n> May I?", "Yes."),
        ("Ja.\n\nVon meinem iPhone gesendet", "Ja."),
        ("> May I?\n\nYes.", "Yes."),
        ("> May I?\nYes.\n-- \nAnn", "Yes."),
        (
            "See below.\n\n> one\n> Which day?\n\nTuesday\n\n> Which place?\nHere\n\n> bye",
            "See below.\n\n> one\n> Which day?\n\nTuesday\n\n> Which place?\n\nHere",
        ),
        (
            "Yes.\n\n-----Original Message-----\nFrom: main\nSent: Tuesday\nSubject: Tea\n\nMay I?",
            "Yes.",
        ),
        (
            "Yes.\n\nFrom: main <a@b.c>\nSent: Tuesday, 24 November\nTo: Ann\nSubject: Tea\n\nMay I?",
            "Yes.",
        ),
        ("Ja.\n\n*Von:* main\n*Gesendet:* Dienstag\n*An:* Ann\n*Betreff:* Tee\n\nDarf ich?", "Ja."),
        (
            "My answers to the 3 points:\n\n> one\n\nyes",
            "My answers to the 3 points:\n\n> one\n\nyes",
        ),
        ("From: here\nto there.", "From: here\nto there."),
        ("a\n-----\nb", "a\n-----\nb"),
        ("> only quoted", "> only quoted"),
    ],
)
def test_the_new_part_of_a_reply_is_kept(text: str, expected: str) -> None:
    assert extract_reply(text).text == expected


def test_a_quotation_is_not_part_of_what_the_user_wrote() -> None:
    written = extract_reply("> 1  Approve\n> 2  Reject\n\n2\n\n> more")
    assert (written.own, written.quoted) == ("2", "1  Approve\n2  Reject")


def test_a_long_text_after_a_line_of_dashes_is_not_a_signature() -> None:
    text = "first\n--\n" + "\n".join(f"line {number}" for number in range(30))
    assert extract_reply(text).text == text
    assert cut_signature("Hello.\n-- \nAnn") == "Hello."
    assert cut_signature("-- \nAnn") == "-- \nAnn"


def test_quotations_in_html_are_recognised() -> None:
    html = (
        "<div>Yes, <b>please</b>.</div><div class='gmail_quote'><div>On Tue, 24 Nov 2026, main "
        "&lt;a@b.c&gt; wrote:<br></div><blockquote>May I?<blockquote>older</blockquote>"
        "<p>Soon?</p></blockquote></div>"
    )
    text = html_to_text(html, mark_quotations=True)
    assert "> May I?" in text and "> older" in text
    assert extract_reply(text).text == "Yes, please."
    between = "<blockquote>Which day?</blockquote><p>Tuesday</p><blockquote>Where?</blockquote><p>Here</p>"
    assert extract_reply(html_to_text(between, mark_quotations=True)).own == "Tuesday\n\nHere"


@given(st.text(alphabet="a> \n-:@1", max_size=200))
def test_something_remains_of_every_text(text: str) -> None:
    assert bool(extract_reply(text).text) == bool(text.strip())
