"""Characters that a person cannot be sure to see are spelled out in what the person approves."""

import itertools
import sys
import unicodedata

import pytest

from choir_common.approvals import escape_line

DEFAULT_IGNORABLE = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Default_Ignorable_Code_Point of Unicode 16 (DerivedCoreProperties.txt)."""
BLANK = (0x2800, 0x16FE4, 0x1D159)
"""The empty Braille pattern, a filler of Khitan, and a note without a head."""


def assert_spelled(codes: list[int]) -> None:
    shown = escape_line("".join(map(chr, codes)))
    assert shown == "".join(f"<U+{code:04X}>" for code in codes)


def test_every_default_ignorable_character_and_filler_is_spelled_out() -> None:
    ranges = (range(first, last + 1) for first, last in DEFAULT_IGNORABLE)
    assert_spelled([*BLANK, *itertools.chain(*ranges)])


def test_every_space_separator_control_and_private_character_is_spelled_out() -> None:
    categories = {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}
    codes = [c for c in range(0xE1000) if unicodedata.category(chr(c)) in categories]
    assert_spelled(
        [*(c for c in codes if chr(c) not in " \t"), 0xE000, 0x0378, 0xF0000, sys.maxunicode]
    )


def test_visible_characters_stay_as_they_are() -> None:
    for text in (
        "Grüße, мир\t漢字",
        "Ωμέγα",
        "naïve façade",
        "GitHubリポジトリ",
        "a_b-1.2",
        "שלום",
        "한국어",
    ):
        assert escape_line(text) == text


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("p\u0430ypal.com", "p<U+0430>ypal.com"),
        ("g\u03bf\u03bfgle", "g<U+03BF><U+03BF>gle"),
        ("p\u0301\u0430ypal", "p\u0301<U+0430>ypal"),
        ("a1_\u0430", "a1_<U+0430>"),
        ("\uff41dmin", "<U+FF41>dmin"),
        ("\u043c\u0438\u03c1", "\u043c\u0438<U+03C1>"),
    ],
)
def test_letters_of_another_script_inside_a_word_are_spelled_out(word: str, shown: str) -> None:
    assert escape_line(word) == shown
