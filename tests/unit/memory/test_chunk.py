"""Cutting a document into pieces under its headings."""

import re

from hypothesis import given
from hypothesis import strategies as st

from choir_memory.collections.chunking import DENSE_PIECE_CHARS, PIECE_CHARS, split_document

MANUAL = """# Boiler

Before you begin, read this.

## Pressure
Keep it between 1 and 2 bar.

```
# not a heading
```

## Bleeding ##
Open the valve.
# Warranty
Two years.
"""


def test_headings_begin_a_piece_and_stand_above_all_below_them() -> None:
    cut = split_document(MANUAL)
    assert [piece.headings for piece in cut] == [
        ("Boiler",),
        ("Boiler", "Pressure"),
        ("Boiler", "Bleeding"),
        ("Warranty",),
    ]
    assert "# not a heading" in cut[1].text


def test_a_long_paragraph_ends_at_a_sentence() -> None:
    sentence = "The valve is on the left side of the boiler. "
    cut = split_document(sentence * 100)
    assert all(piece.text.endswith("boiler.") for piece in cut)
    assert all(PIECE_CHARS // 2 < len(piece.text) <= PIECE_CHARS for piece in cut[:-1])


def test_chinese_is_cut_shorter_at_its_full_stops() -> None:
    cut = split_document("閥門在鍋爐的左側。" * 200)
    assert all(len(piece.text) <= DENSE_PIECE_CHARS for piece in cut)
    assert all(piece.text.endswith("。") for piece in cut)


@given(st.text(alphabet="ab #\n.。x", max_size=4_000))
def test_nothing_but_white_space_is_lost(text: str) -> None:
    cut = split_document(text)
    assert re.sub(r"\s", "", "".join(piece.text for piece in cut)) == re.sub(r"\s", "", text)
    assert all(0 < len(piece.text) <= PIECE_CHARS for piece in cut)
