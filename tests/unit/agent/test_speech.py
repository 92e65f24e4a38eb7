"""Durations of Ogg Opus files, and answers as they are spoken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_agent.tools.speech.spoken_text import render_spoken_text
from choir_common.speech.ogg import HEAD_BYTES, TAIL_BYTES, opus_seconds
from tests.support.ogg import make_speech


def seconds_of(content: bytes) -> float | None:
    return opus_seconds(content[:HEAD_BYTES], content[-TAIL_BYTES:])


@pytest.mark.parametrize("seconds", [0.0, 0.02, 61.5, 7_200.0])
def test_the_duration_is_that_of_the_last_page(seconds: float) -> None:
    assert seconds_of(make_speech("hello", seconds, size=90_000)) == seconds


@pytest.mark.parametrize(
    "content",
    [b"", b"OggS", b"RIFF" + b"x" * 100, make_speech("x")[:30], b"OggS" + b"OpusHead" * 3],
)
def test_what_is_not_opus_has_no_duration(content: bytes) -> None:
    assert seconds_of(content) is None


@given(st.binary(max_size=400), st.integers(0, 300))
def test_damaged_files_never_raise(noise: bytes, at: int) -> None:
    speech = make_speech("hello", size=300)
    damaged = speech[:at] + noise + speech[at + len(noise) :]
    assert (seconds_of(damaged) or 0) >= 0


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Plain words.", "Plain words."),
        ("# Title\n\n**Bold** and `code`, [a link](http://x.org)", "Title\nBold and code, a link"),
        ("- one\n- two\n\n1. three", "one\ntwo\nthree"),
        ("See:\n\n```py\nprint(1)\n```", "See:\nThe code is in the text."),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a\nb\n1\n2"),
        ("one\ntwo", "one two"),
        ("```\n```", "The code is in the text."),
        ("2 * 3 < 7 & <b>x</b>", "2 * 3 < 7 & x"),
        ("---", ""),
    ],
)
def test_an_answer_is_spoken_without_its_marks(written: str, spoken: str) -> None:
    assert render_spoken_text(written) == spoken
