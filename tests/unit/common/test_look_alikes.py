"""Words that look Latin and are wholly Cyrillic or Greek are spelled out, and ordinary sentences are not."""

import json
import time
import unicodedata

import pytest

from choir_common.approvals import request_lines
from choir_common.escape_text import spell_uncertain


def latin_looks(word: str) -> str:
    """Return a word of Cyrillic letters, for those of an ASCII word that they look like."""
    return word.translate(str.maketrans("aceopxyijsABEHKMOPCTX", "асеорхуіјѕАВЕНКМОРСТХ"))


def spelled(word: str) -> str:
    return "".join(c if c.isascii() else f"<U+{ord(c):04X}>" for c in word)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("https://{}.com/x", "аррӏе"),
        ("{}.com", "сосоа"),
        ("{}@example.org", "асе"),
        ("pay to ace@{}.com", "хоре"),
        ("/usr/bin/{}", "сору"),
        ("~/{}/b", "а"),
        ("{} -r a b", "сору"),
        ("sudo {} a b", "сору"),
        ("true; {} a b", "сору"),
        ("--{}=1", "ехес"),
        ("{}", "ехес"),
        ("{} # потом", "сору a b;"[:4]),
        ("{} a # привет", "сору"),
        ("echo готово; {} a", "сору"),
        ("файл https://{}.com сохранён", "аррӏе"),
        ("письмо на {}@{{}}.com".replace("{{}}", "mail"), "асе"),
        ("host {}.gr", "νοο"),
        ("{}", "ΝΙΚΟΝ"),
        ("{}:22", "хост"[:2]),
    ],
)
def test_a_word_that_could_pass_for_a_latin_one_is_spelled_out(text: str, word: str) -> None:
    assert spell_uncertain(text.format(word)) == text.format(spelled(word))


@pytest.mark.parametrize(
    "text",
    [
        "А вот и он, а у нас сухо и ухо болит.",
        "Он сам с ухом, о чём и речь; у нас ОС Windows, СССР и USB.",
        "С Python работает, а iPhone нет. А GitHub — да!",
        "т.е. через Х.Х. Иванова и т.о. всё",
        "Это «ухо» и (хор) в Москве",
        "и/или, кто-то, 2х2, 10х",
        "Θέλω να πάω, ο ίδιος. Να το!",
        "Και ο Νίκος",
        "мир",
        "https://пример.рф/путь",
    ],
)
def test_an_ordinary_sentence_stays_as_it_is(text: str) -> None:
    assert spell_uncertain(text) == text


def test_a_line_that_begins_in_json_is_read_like_any_other() -> None:
    payload = {"tool": "t", "input": {"text": "Привет\nА вот и я\tи он", "file": "a\nсору b"}}
    lines = "\n".join(line.text for line in request_lines("call", payload, {}))
    assert json.dumps("Привет\nА вот и я\tи он", ensure_ascii=False) in lines
    assert f"a\\n{spelled('сору')} b" in lines


def test_every_look_alike_looks_like_its_ascii_letter_in_a_host() -> None:
    for letter in "aceopxyijsABEHKMOPCTX":
        other = latin_looks(letter)
        assert unicodedata.name(other).startswith("CYRILLIC")
        assert spell_uncertain(f"{other}.com") == f"<U+{ord(other):04X}>.com"


def test_a_long_line_takes_time_in_proportion_to_its_length() -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        spell_uncertain(text)
        return time.process_time() - start

    for text in ("а ", "а.", "ухо.", "а/б ", "сору\t", "аb ", "х" * 50 + " "):
        short, long = (min(seconds(text * n) for _ in range(2)) for n in (300, 3_000))
        assert long < 40 * max(short, 0.001), text
