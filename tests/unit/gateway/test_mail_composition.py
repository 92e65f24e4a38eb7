"""The mails of an agent: subject, thread, two forms of text, and characters with a meaning elsewhere."""

import email
import email.policy
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.wire.attachments import Button
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.email.composer import FileContent, compose_mail, draft_message
from choir_gateway.channels.email.mail_parser import reply_subject
from choir_gateway.channels.email.message_ids import (
    find_outbox_id,
    is_own,
    is_question,
    make_message_id,
    parse_ids,
    short_id,
)
from choir_gateway.channels.email.threads import ThreadMail
from tests.support.mail_user import html_text, plain_text

AGENT = "agent@choir.test"
AT = datetime(2026, 11, 24, 12, tzinfo=UTC)
PARENT = ThreadMail("<b@choir.test>", "AW: Tea", ("<a@choir.test>",), is_users=True)


def message(
    text: str, *, kind: ReplyKind = "answer", session_id: str | None = "s", outbox_id: int = 7
) -> OutboundMessage:
    return OutboundMessage(
        outbox_id=outbox_id,
        dm="ann",
        gateway="mail",
        agent_id="main",
        session_id=session_id,
        rev=1,
        kind=kind,
        text=text,
        answers=None,
        at=AT,
    )


def composed(
    outbound: OutboundMessage, parent: ThreadMail | None = None, *files: FileContent
) -> EmailMessage:
    draft = draft_message(outbound, make_message_id(outbound, AGENT), parent=parent, files=files)
    content = compose_mail(draft, address=AGENT, recipient="ann@choir.test").content
    mail = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(mail, EmailMessage) and content.isascii()
    return mail


def test_an_answer_stays_in_its_thread() -> None:
    mail = composed(message("At four."), PARENT)
    assert (mail["Subject"], mail["In-Reply-To"]) == ("Re: Tea", "<b@choir.test>")
    assert mail["References"] == "<a@choir.test> <b@choir.test>"
    assert mail["Auto-Submitted"] == "auto-replied"
    assert str(mail["From"]) == '"main (Choir)" <agent@choir.test>'


def test_a_new_thread_has_the_first_line_as_its_subject() -> None:
    mail = composed(message("**Reminder**: water the plants\n\nThey are dry."))
    assert mail["Subject"] == "Reminder: water the plants"
    assert mail["In-Reply-To"] is None and mail["Auto-Submitted"] == "auto-generated"
    assert len(composed(message("word " * 100))["Subject"]) <= 72


def test_the_message_id_is_that_of_the_outbox_message() -> None:
    first, again = message("x"), message("y")
    asks = first.model_copy(update={"buttons": (Button(label="A", data="a"),)})
    assert make_message_id(first, AGENT) == make_message_id(again, AGENT)
    assert make_message_id(first, AGENT) != make_message_id(message("x", outbox_id=8), AGENT)
    assert is_question(make_message_id(asks, AGENT)) and not is_question(
        make_message_id(first, AGENT)
    )
    own = make_message_id(first, AGENT)
    assert is_own(own) and find_outbox_id(own) == 7 and len(short_id(own)) <= 64
    assert not is_own("<a@choir.test>") and find_outbox_id("<a@choir.test>") is None
    assert parse_ids("junk <a@b>\r\n <c@d> <a@b>") == ("<a@b>", "<c@d>")
    assert len(parse_ids(" ".join(f"<{number}@b>" for number in range(99)))) == 20


def test_text_is_sent_in_two_forms() -> None:
    mail = composed(
        message("See **this** [plan](https://a.b/c?d=1&e=2) and https://x.y\n\n```\n1 < 2\n```")
    )
    assert "See this plan (https://a.b/c?d=1&e=2) and https://x.y" in plain_text(mail)
    html = html_text(mail)
    assert '<b>this</b> <a href="https://a.b/c?d=1&amp;e=2">plan</a>' in html
    assert "1 &lt; 2" in html


def test_markup_of_an_agent_is_text() -> None:
    text = "<img src=x onerror=alert(1)> <script>alert(1)</script> [x](javascript:alert(1)) ![p](https://t.co/p)"
    html = html_text(composed(message(text)))
    for markup in ("<img", "<script", 'javascript:alert(1)"', "src="):
        assert markup not in html.replace("&lt;img src=x", "")


def test_choirs_own_messages_have_its_name() -> None:
    own = composed(message("main requests a call.", kind="notice", session_id=None))
    assert str(own["From"]) == "Choir <agent@choir.test>" and "<blockquote" in html_text(own)
    assert "<blockquote" not in html_text(composed(message("> not Choir")))


def test_files_keep_their_names_and_bytes() -> None:
    files = (
        FileContent("plän.pdf", "application/pdf", b"\0\1"),
        FileContent("mail.eml", "message/rfc822", b"a\nb"),
        FileContent("odd\r\nX: y", "not a type", b"z"),
    )
    mail = composed(message("files"), None, *files)
    arrived = [(it.get_filename(), it.get_content()) for it in mail.iter_attachments()]
    assert arrived == [("plän.pdf", b"\0\1"), ("mail.eml", b"a\nb"), ("odd X: y", b"z")]
    assert mail["X"] is None


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("Tea", "Re: Tea"), ("Re: Tea", "Re: Tea"), ("AW: RE: re[2]: Tea", "Re: Tea"), ("", "Re:")],
)
def test_a_reply_has_one_mark(subject: str, expected: str) -> None:
    assert reply_subject(subject) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_every_text_can_be_sent(text: str) -> None:
    mail = composed(message(text or "x"), ThreadMail("<a@b>", "Tea"))
    assert mail["Subject"] == "Re: Tea"
    composed(message(text or "x"))
