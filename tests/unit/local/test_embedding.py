"""The rehearsal model's embeddings."""

import base64
import math
import struct

import pytest

from choir_local.rehearsal.embedding import embed, to_base64


@pytest.mark.parametrize("text", ["green tea", "", "…", "a " * 5000, "日本語のテキスト"])
def test_every_text_has_a_unit_vector(text: str) -> None:
    assert math.fsum(x * x for x in embed(text)) == pytest.approx(1.0)


def test_texts_that_share_words_lie_closer() -> None:
    tea, also_tea, cars = (embed(text) for text in ("I like green tea", "green tea", "fast cars"))
    near = sum(a * b for a, b in zip(tea, also_tea, strict=True))
    far = sum(a * b for a, b in zip(tea, cars, strict=True))
    assert near > far


def test_base64_holds_little_endian_floats() -> None:
    vector = embed("tea", 8)
    read = struct.unpack("<8f", base64.b64decode(to_base64(vector)))
    assert read == pytest.approx(vector)
