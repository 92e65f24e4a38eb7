"""What a person types after `/forget`, and the texts that show what is erased."""

from datetime import UTC, datetime, timedelta

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.memory_forget import (
    ConversationMessage,
    ForgetReport,
    ForgetResult,
    ForgottenDocument,
)
from choir_control.conversations.commands.forgetting import (
    SHOWN,
    format_preview,
    format_result,
    parse_forget,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("last 10 minutes", timedelta(minutes=10)),
        ("last hour", timedelta(hours=1)),
        ("Last  2 Days", timedelta(days=2)),
        ("last 1 week", timedelta(weeks=1)),
    ],
)
def test_a_period_ends_now(text: str, back: timedelta) -> None:
    selection = parse_forget(text, NOW)
    assert (selection.since, selection.until, selection.words) == (NOW - back, None, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  my old address ", "my old address"),
        ('"session"', "session"),
        ("“last hour”", "last hour"),
        ("last christmas", "last christmas"),
        ("the last 3 days", "the last 3 days"),
    ],
)
def test_everything_else_is_words(text: str, words: str) -> None:
    selection = parse_forget(text, NOW)
    assert (selection.words, selection.since) == (words, None)


@pytest.mark.parametrize("text", ["last 0 minutes", "last 99999 weeks", '" "', "x" * 401])
def test_what_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_forget(text, NOW)


def make_report(documents: int, **more: object) -> ForgetReport:
    shown = tuple(
        ForgottenDocument(
            document_id=str(number),
            store="session",
            kind="turn",
            key=None,
            session_id="s1",
            at=NOW,
            text=f"text {number}\nof two lines",
            derived=False,
        )
        for number in range(documents)
    )
    memory = ForgetResult(
        erased=False,
        digest="0" * 64,
        documents=shown,
        counts={"fact": 1, "turn": documents},
        total=documents + 1,
        supported=1,
        restored=2,
    )
    return ForgetReport(agent_id="main", memory=memory, **more)


def test_a_preview_names_what_goes_what_stays_and_what_happens_then() -> None:
    report = make_report(SHOWN + 2, logs=("s1",), restarts=True, conversation="rest")
    text = format_preview(report)
    assert f"erases 1 fact, {SHOWN + 2} messages from the memory of main. Times" in text
    assert "messenger" not in text and "messenger" in format_preview(report, is_messenger=True)
    assert "- 2026-03-01 12:00 message: text 0 of two lines" in text
    assert "… and 3 more." in text
    assert "1 document loses this source and stays" in text
    assert "Active again: 2 older documents." in text
    assert "of 1 session are erased" in text
    assert "main stops, discards open work, and starts again with the rest" in text


def test_a_reset_says_whether_there_is_a_summary_to_keep() -> None:
    kept = make_report(1, restarts=True, conversation="summary", summary_chars=1_200)
    assert "with its reference summary (1,200 characters)" in format_preview(kept)
    none = make_report(1, restarts=True, conversation="summary")
    assert "there is no reference summary yet" in format_preview(none)
    assert "main has started again with an empty conversation" in format_result(
        make_report(1, restarts=True, conversation="nothing")
    )


def test_what_memory_does_not_have_yet_is_counted_in_the_conversation() -> None:
    message = ConversationMessage(at=NOW, sender="user", text="Hello.")
    empty = ForgetResult(erased=False, digest="0" * 64, documents=())
    report = ForgetReport(
        agent_id="main", memory=empty, conversation="nothing", messages=(message,), message_count=1
    )
    preview = format_preview(report).splitlines()
    assert (
        preview[0] == "This permanently erases 1 message from the conversation. Times are in UTC."
    )
    assert preview[-1] == "- 2026-03-01 12:00 user: Hello."
    assert format_result(report) == "Erased: 1 message from the conversation."
    only_logs = ForgetReport(agent_id="main", memory=empty, logs=("s1",))
    assert "stored logs of main, and nothing from its memory" in format_preview(only_logs)


def test_a_reset_says_that_earlier_sessions_stay() -> None:
    report = make_report(1, conversation="nothing", earlier_until=NOW)
    assert "before this session (2026-03-01 12:00 UTC) stays in memory" in format_preview(report)
