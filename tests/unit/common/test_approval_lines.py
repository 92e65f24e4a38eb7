"""What a person decides on: what cannot be seen is spelled out, and nothing else looks like that."""

import pytest

from choir_common.approvals import request_lines, request_subject


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("echo 1 < 2", "echo 1 < 2"),
        ("a\u3164b", "a<U+3164>b"),
        ("p\u0430ypal", "p<U+0430>ypal"),
        # else a shell would read redirections where a person reads the mark of a line end
        ("echo KEY <U+000A>~/.ssh/keys", "echo KEY <U+003C>U+000A>~/.ssh/keys"),
        ("<U+\u200b>", "<U+003C>U+<U+200B>>"),
    ],
)
def test_what_looks_like_a_spelling_is_one(text: str, spelled: str) -> None:
    for call in ({"tool": "t", "input": {"command": [text]}}, {"tool": "t", "input": {text: 1}}):
        lines = "\n".join(line.text for line in request_lines("call", call, {}))
        assert spelled in lines and "\u3164" not in lines
    assert request_subject("repo_change", {"branch": text}) == spelled
