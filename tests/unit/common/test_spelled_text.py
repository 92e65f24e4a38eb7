"""Characters that a person cannot be sure to see are spelled out, and nothing else looks like that."""

import pytest

from choir_common.escape_text import spell_uncertain


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("a plain text, 1 < 2", "a plain text, 1 < 2"),
        ("a\u200bb", "a<U+200B>b"),
        ("p\u0430ypal", "p<U+0430>ypal"),
        # else a shell would read redirections where a person reads the mark of a line end
        ("echo KEY <U+000A>~/.ssh/keys", "echo KEY <U+003C>U+000A>~/.ssh/keys"),
        ("<U+\u200b>", "<U+003C>U+<U+200B>>"),
    ],
)
def test_what_looks_like_a_spelling_is_one(text: str, spelled: str) -> None:
    assert spell_uncertain(text) == spelled
