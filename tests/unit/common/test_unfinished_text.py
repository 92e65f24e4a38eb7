"""A text that is shown while it grows never shows a part of a secret."""

from hypothesis import given
from hypothesis import strategies as st

from choir_common.redactor import MASK, Redactor

SECRET = "sk-canary-0123456789"


def redactor(*secrets: str) -> Redactor:
    made = Redactor()
    made.add_secrets(secrets)
    return made


def test_the_beginning_of_a_secret_is_left_out_until_the_rest_decides() -> None:
    it = redactor(SECRET)
    assert it.redact_unfinished("the key is sk-can") == "the key is "
    assert it.redact_unfinished("the key is sk-candy") == "the key is sk-candy"
    assert it.redact_unfinished(f"the key is {SECRET}") == f"the key is {MASK}"


def test_a_secret_that_repeats_itself_is_not_shown_by_half() -> None:
    it = redactor("abcabc")
    assert it.redact_unfinished("x abcabc") == "x "
    assert it.redact_unfinished("x abcabcd") == f"x {MASK}d"


@given(st.data())
def test_no_cut_of_a_growing_text_shows_a_part_of_a_secret(data: st.DataObject) -> None:
    # the letters of the secrets occur in no other part of the text, so that any trace is seen
    secrets = data.draw(st.lists(st.text("XYZ", min_size=6, max_size=9), min_size=1, max_size=3))
    pieces = data.draw(st.lists(st.sampled_from([*secrets, "ab ", "c"]), max_size=6))
    it = redactor(*secrets)
    for end in range(len(text := "c".join(pieces)) + 1):
        assert not set("XYZ") & set(it.redact_unfinished(text[:end]).replace(MASK, ""))


@given(st.text("ab ", max_size=12), st.integers(0, 40))
def test_with_one_secret_what_was_shown_is_the_beginning_of_the_whole(
    around: str, end: int
) -> None:
    it = redactor(SECRET)
    text = f"{around}{SECRET}{around}"
    assert it.redact(text).startswith(it.redact_unfinished(text[:end]))
